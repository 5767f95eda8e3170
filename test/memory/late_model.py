"""A router and three experts: which rows an expert gets is known only as the step runs (NonZero).  And batches for it.  late_model.py FOLDER

Batches: rows shared out evenly; rows that all go to one expert; again evenly, of other sizes."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t
from onnx_writer import *

WIDTH, HIDDEN, EXPERTS = 8, 96, 3
r = t.Random(11)
weight = lambda name, *dims: tensor(name, FLOAT, dims, [0.3 * x for x in r.reals(t.product(dims))])
nodes, weights = [], [weight("mix", WIDTH, WIDTH)]
weights.append(tensor("router", FLOAT, [WIDTH, EXPERTS], [4.0 if i == j else 0.0 for i in range(WIDTH) for j in range(EXPERTS)]))


def op(kind, inputs, name, **attributes):
    nodes.append(node(kind, inputs, [name], name="/" + name, **attributes))
    return name


scores = op("MatMul", ["x", "router"], "scores")
chosen = op("ArgMax", [scores], "chosen", axis=1, keepdims=0)
shares = op("Softmax", [scores], "shares", axis=1)
y = op("MatMul", ["x", "mix"], "mixed")
for e in range(EXPERTS):
    s = lambda name: "%s%d" % (name, e)
    weights += [tensor(s("number"), INT64, [], [e]), weight(s("up"), WIDTH, HIDDEN), weight(s("down"), HIDDEN, WIDTH)]
    rows = op("Transpose", [op("NonZero", [op("Equal", [chosen, s("number")], s("equal"))], s("found"))], s("rows"), perm=[1, 0])
    mine = op("GatherND", ["x", rows], s("mine"))
    hidden = op("Tanh", [op("MatMul", [mine, s("up")], s("wide"))], s("hidden"))
    made = op("MatMul", [op("Mul", [hidden, op("Sigmoid", [hidden], s("gate"))], s("gated")), s("down")], s("made"))
    y = op("ScatterND", [y, rows, made], s("y"), reduction="add")
weights.append(tensor("axis", INT64, [1], [1]))
top = op("ReduceMax", [shares, "axis"], "top", keepdims=1)
op("Mul", [y, top], "out")
model(sys.argv[1] + "/model.onnx", graph(nodes, [value("x", FLOAT, ["n", WIDTH])], [value("out", FLOAT, ["n", WIDTH])], weights))


def batch(step, n, expert):
    x = r.reals(n * WIDTH)
    for i in range(n):
        for e in range(EXPERTS): x[i * WIDTH + e] = 1.0 if e == (i % EXPERTS if expert is None else expert) else -1.0
    return {"step%d.x" % step: ("F32", [n, WIDTH], x), "step%d.target" % step: ("F32", [n, WIDTH], r.reals(n * WIDTH))}


even, uneven, other = batch(0, 600, None), batch(1, 600, 1), batch(2, 450, None)
t.safetensors(sys.argv[1] + "/batches.safetensors", {**even, **uneven, **other})
