"""Two small batches of different shapes for each of the project's models.  batches.py FOLDER"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

r = t.Random(5)
reals = lambda *shape: ("F32", list(shape), [2 * x for x in r.reals(t.product(shape))])
classes = lambda n, below: ("I64", [n], r.ints(n, below))
for model, steps in {
        "letters": [{"input_ids": ("I64", [b, n], r.ints(b * n, 128))} for b, n in ((2, 5), (1, 9))],
        "flow": [{"sensors": reals(b, n, 7), "target": classes(b, 3)} for b, n in ((3, 6), (1, 4))],
        "tracks": [{"trajectory": reals(b, n, 6), "target": reals(b, n, 6)} for b, n in ((2, 5), (5, 3))],
        "shapes": [{"image": reals(b, 1, h, w), "target": classes(b, 4)} for b, h, w in ((2, 5, 4), (1, 4, 7))],
}.items():
    t.safetensors("%s/%s.safetensors" % (sys.argv[1], model), {"step%d.%s" % (k, name): x for k, step in enumerate(steps) for name, x in step.items()})
