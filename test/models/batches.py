"""Writes a file of ready batches (--batch-file), made up: python3 test/models/batches.py OUT [NAME=KIND:DIMS ...] / [NAME=KIND:DIMS ...] ...

Each group, parted by /, is one batch.  KIND: reals (-1 to 1), bits (0.0 or 1.0), ints<N> (below N), int (the number given after the dims'
colon: sr=int::16000).

    batches.py two.safetensors image=reals:4,3,32,32 target=ints10:4 / image=reals:2,3,48,40 target=ints10:2
"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from tensors import Random, product, safetensors


def tensor(random, kind, dims, value):
    shape = [int(d) for d in dims.split(",") if d]
    n = product(shape)
    if kind == "reals": return "F32", shape, random.reals(n)
    if kind == "bits": return "F32", shape, [float(i) for i in random.ints(n, 2)]
    if kind == "int": return "I64", shape, [int(value)] * n
    return "I64", shape, random.ints(n, int(kind[len("ints"):]))


out, step, random = {}, 0, Random(7)
for argument in sys.argv[2:]:
    if argument == "/":
        step += 1
        continue
    name, spec = argument.split("=")
    kind, dims, value = (spec + "::").split(":")[:3]
    out["step%d.%s" % (step, name)] = tensor(random, kind, dims, value)
safetensors(sys.argv[1], out)
