"""Batches of several shapes for letters and tracks.  budget.py FOLDER"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

r = t.Random(3)
shapes = [(2, 9), (3, 5), (1, 30), (4, 17), (2, 9), (5, 3)]
t.safetensors(sys.argv[1] + "/letters.safetensors", {"step%d.input_ids" % k: ("I64", list(s), r.ints(s[0] * s[1], 128)) for k, s in enumerate(shapes)})
tracks = {}
for k, (batch, time) in enumerate(shapes):
    for name in "trajectory", "target": tracks["step%d.%s" % (k, name)] = ("F32", [batch, time, 6], r.reals(batch * time * 6))
t.safetensors(sys.argv[1] + "/tracks.safetensors", tracks)
