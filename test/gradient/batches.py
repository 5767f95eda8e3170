"""A batch for each of the project's models.  batches.py FOLDER"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

r = t.Random(5)
reals = lambda *shape: ("F64", list(shape), [2 * x for x in r.reals(t.product(shape))])
classes = lambda n, below: ("I64", [n], r.ints(n, below))
for model, inputs in {
        "letters": {"input_ids": ("I64", [1, 6], r.ints(6, 128))},
        "flow": {"sensors": reals(3, 9, 7), "target": classes(3, 3)},
        "tracks": {"trajectory": reals(2, 5, 6), "target": reals(2, 5, 6)},
        "shapes": {"image": reals(3, 1, 12, 9), "target": classes(3, 4)},
}.items():
    t.safetensors("%s/%s.safetensors" % (sys.argv[1], model), {"step0." + name: tensor for name, tensor in inputs.items()})
