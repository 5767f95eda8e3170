"""python3 test/models/falls.py LOG STEPS SHAPES [SHARE]: the log has STEPS steps of SHAPES different shapes, every loss is finite, and at each shape the last one
is below SHARE (0.9) of the first."""
import json, math, sys
log, steps, shapes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
share = float(sys.argv[4]) if len(sys.argv) > 4 else 0.9
losses = {}
with open(log) as f:
    for line in f:
        row = json.loads(line)
        if "loss" in row: losses.setdefault(json.dumps(row["dims"]), []).append(row["loss"])
bad = []
if sum(map(len, losses.values())) != steps: bad.append("%d steps in the log, wanted %d" % (sum(map(len, losses.values())), steps))
if len(losses) != shapes: bad.append("%d shapes in the log, wanted %d" % (len(losses), shapes))
for dims, row in losses.items():
    print("%s: loss %.6g -> %.6g" % (dims, row[0], row[-1]))
    if not all(l is not None and math.isfinite(l) for l in row): bad.append("%s: a loss is not finite" % dims)
    elif not row[-1] < share * row[0]: bad.append("%s: the loss does not fall: %s" % (dims, row))
for b in bad: print("FAILED:", b)
sys.exit(bool(bad))
