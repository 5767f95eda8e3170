"""Writes a graph of about NODES nodes: python3 test/scale/graphs.py KIND NODES OUT.onnx

residual: deep, h + Relu(h W + b), weights of its own in each layer; branches: wide, one input, a tree of sums; shapes: layers whose
Reshape sizes are computed from Shape by Gather, Mul, Concat, each from the layer before.
"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from onnx_writer import *
from tensors import Random

WIDTH = 4
weights, nodes, random = [], [], Random(3)


def weight(name, *dims):
    n = 1
    for d in dims: n *= d
    weights.append(tensor(name, FLOAT, dims, [r / 4 for r in random.reals(n)]))
    return name


def integers(name, *values):
    weights.append(tensor(name, INT64, [len(values)], values))
    return name


def op(kind, inputs, **attributes):
    out = "v%d" % len(nodes)
    nodes.append(node(kind, inputs, [out], name="/n%d/%s" % (len(nodes), kind), **attributes))
    return out


def layer(h):
    i = len(nodes)
    return op("Relu", [op("Add", [op("MatMul", [h, weight("w%d" % i, WIDTH, WIDTH)]), weight("b%d" % i, WIDTH)])])


def residual(n):
    h = "x"
    while len(nodes) < n: h = op("Add", [h, layer(h)])
    return h


def branches(n):
    row = [layer("x") for _ in range(n // 4)]
    while len(row) > 1: row = [op("Add", row[i:i + 2]) if i + 1 < len(row) else row[i] for i in range(0, len(row), 2)]
    return row[0]


def shapes(n):
    zero, one, minus = integers("zero", 0), integers("one", 1), integers("minus", -1)
    h = "x"
    while len(nodes) < n:
        size = op("Shape", [h])
        batch, width = op("Gather", [size, zero], axis=0), op("Gather", [size, one], axis=0)
        flat = op("Reshape", [h, op("Concat", [op("Mul", [batch, width]), one], axis=0)])
        back = op("Reshape", [flat, op("Concat", [op("Div", [op("Gather", [op("Shape", [flat]), zero], axis=0), width]), width], axis=0)])
        h = op("Add", [back, weight("b%d" % len(nodes), WIDTH)])
        h = op("Mul", [h, op("Tanh", [h])])
    return h


kind, n, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
last = op("MatMul", [{"residual": residual, "branches": branches, "shapes": shapes}[kind](n), weight("head", WIDTH, 3)])
nodes.append(node("Identity", [last], ["y"], name="/out"))
model(path, graph(nodes, [value("x", FLOAT, ["batch", WIDTH])], [value("y", FLOAT, ["batch", 3])], weights), opset=17)
