"""same.py A B TOLERANCE: losses in A.log and B.log agree, and so does each gradient in A.gradients and B.gradients, relative to its largest, or 0.1."""
import json, os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

a, b, tolerance = sys.argv[1], sys.argv[2], float(sys.argv[3])
losses = [[json.loads(line)["loss"] for line in open(x + ".log") if '"loss"' in line] for x in (a, b)]
wrong = [] if losses[0] and all(abs(x - y) <= tolerance * abs(y) for x, y in zip(*losses)) else ["losses %s" % losses]
first, second = t.read(a + ".gradients")[0], t.read(b + ".gradients")[0]
if set(first) != set(second): wrong.append("other gradients")
for name in first:
    x, y = t.numbers(first[name]), t.numbers(second[name])
    largest = max(abs(v) for v in y)
    worst = max(abs(v - w) for v, w in zip(x, y))
    if not worst <= tolerance * max(largest, 0.1): wrong.append("%s: %g of %g" % (name, worst, largest))
if wrong: sys.exit("\n".join(wrong))
