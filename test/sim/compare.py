"""Whether two files of gradients agree: compare.py WANTED FOUND TOLERANCE [PREFIX of names in WANTED], relative to each tensor's
largest element.  Prints the worst."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

wanted, found = [t.read(path)[0] for path in sys.argv[1:3]]
prefix = sys.argv[4] if len(sys.argv) > 4 else ""
wanted = {name[len(prefix):]: x for name, x in wanted.items() if name.startswith(prefix)}
if not wanted or not wanted.keys() <= found.keys(): sys.exit("not the same tensors: %s" % sorted(wanted.keys() ^ found.keys())[:3])
worst = (0, "")
for name in wanted:
    x, y = t.numbers(wanted[name]), t.numbers(found[name])
    largest = max([abs(v) for v in x] + [1e-3])
    off = max((abs(p - q) if p == p and q == q else float("inf") for p, q in zip(x, y)), default=0) / largest
    worst = max(worst, (off if len(x) == len(y) else float("inf"), name))
print("gradients differ by %.1e (%s)" % worst)
sys.exit(not worst[0] <= float(sys.argv[3]))
