"""A small language model with a vocabulary much wider than its rows, a tied table and a bias; and batches for it.  row_blocks_model.py FOLDER"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t
from onnx_writer import *

WORDS, WIDTH = 1500, 24
r = t.Random(4)
weight = lambda name, *dims: tensor(name, FLOAT, dims, [0.5 * x for x in r.reals(t.product(dims))])
nodes = [
    node("Gather", ["table", "ids"], ["e"]),
    node("MatMul", ["e", "w"], ["p"]),
    node("Tanh", ["p"], ["n"]),
    node("MatMul", ["n", "up"], ["u"]),
    node("Sigmoid", ["u"], ["g"]),
    node("Mul", ["u", "g"], ["a"]),
    node("MatMul", ["a", "down"], ["d"]),
    node("Add", ["n", "d"], ["h"]),
    node("Transpose", ["table"], ["turned"], perm=[1, 0]),
    node("MatMul", ["h", "turned"], ["s"]),
    node("Add", ["s", "bias"], ["scores"]),
]
shape = ["batch", "seq"]
model(sys.argv[1] + "/model.onnx", graph(nodes, [value("ids", INT64, shape)], [value("scores", FLOAT, shape + [WORDS])],
                                         [weight("table", WORDS, WIDTH), weight("w", WIDTH, WIDTH), weight("up", WIDTH, 12 * WIDTH), weight("down", 12 * WIDTH, WIDTH), weight("bias", WORDS)]))


def batch(step, b, s, labels):
    return {"step%d.ids" % step: ("I64", [b, s], r.ints(b * s, WORDS)), "step%d.target" % step: ("I64", [b, s], labels)}


rows = lambda b, s: r.ints(b * s, WORDS)
some = [-100 if i % 3 == 1 else x for i, x in enumerate(rows(2, 25))]
# 21 rows; 50 of which some do not count; 1; none counts; 37
batches = {**batch(0, 3, 7, rows(3, 7)), **batch(1, 2, 25, some), **batch(2, 1, 1, rows(1, 1)), **batch(3, 2, 5, [-100] * 10), **batch(4, 1, 37, rows(1, 37))}
t.safetensors(sys.argv[1] + "/batches.safetensors", batches)
tall = batch(0, 5, 601, rows(5, 601))
t.safetensors(sys.argv[1] + "/tall.safetensors", tall)
taller = batch(0, 16, 1200, rows(16, 1200))
t.safetensors(sys.argv[1] + "/taller.safetensors", taller)
