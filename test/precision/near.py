"""python3 test/precision/near.py A.jsonl B.jsonl STEPS SHARE: both logs have the losses of STEPS steps, and no two of a step are further apart than
SHARE; they are not the same all along either."""
import json, sys

def losses(path):
    rows = [json.loads(line) for line in open(path)]
    return [row["loss"] for row in rows if "loss" in row]

a, b, steps, share = losses(sys.argv[1]), losses(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
if len(a) != steps or len(b) != steps: sys.exit("FAILED: %d and %d steps, wanted %d" % (len(a), len(b), steps))
apart = [abs(x - y) / abs(x) for x, y in zip(a, b)]
print("loss %.4f -> %.4f, %.4f -> %.4f; apart by %.2e at most, step %d" % (a[0], a[-1], b[0], b[-1], max(apart), apart.index(max(apart))))
if not max(apart) < share: sys.exit("FAILED: wanted %g at most" % share)
