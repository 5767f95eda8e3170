"""A classifier with batch norm and dropout as they are in training, and a loop that ends by what it computes, with dropout in its body.  model.py FOLDER: model.onnx and batch.safetensors"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t
from onnx_writer import *

r = t.Random(9)
weight = lambda name, *dims: tensor(name, FLOAT, dims, r.reals(t.product(dims)))
full = lambda name, value, *dims: tensor(name, FLOAT, dims, [value] * t.product(dims))
grow = body([
    node("Mul", ["v", "rate"], ["vr"]),
    node("Tanh", ["vr"], ["all"]),
    node("Dropout", ["all", "ratio", "yes"], ["grown"]),
    node("Add", ["v", "grown"], ["next"]),
    node("ReduceSumSquare", ["next"], ["size"], keepdims=0),
    node("Less", ["size", "bound"], ["going_on"]),
], [value("step", INT64, []), value("going", BOOL, []), value("v", FLOAT, ["batch", 12])],
            [value("going_on", BOOL, []), value("next", FLOAT, ["batch", 12])])
nodes = [
    node("MatMul", ["x", "w1"], ["a"]),
    node("Add", ["a", "b1"], ["b"]),
    node("BatchNormalization", ["b", "gain", "bias", "mean", "variance"], ["c", "mean_now", "variance_now"], training_mode=1),
    node("PRelu", ["c", "slope"], ["d"]),
    node("Dropout", ["d", "ratio", "yes"], ["e"], seed=3),
    node("Loop", ["", "yes", "e"], ["f"], body=grow),
    node("MatMul", ["f", "w2"], ["logits"]),
]
initializers = [
    weight("w1", 5, 12), weight("b1", 12), full("gain", 1.2, 12), weight("bias", 12), full("mean", 0.1, 12), full("variance", 0.9, 12),
    full("slope", 0.3, 12), tensor("ratio", FLOAT, [], [0.4]), tensor("yes", BOOL, [], [True]), weight("w2", 12, 4), full("rate", 0.4, 12), tensor("bound", FLOAT, [], [900.0])
]
model(sys.argv[1] + "/model.onnx", graph(nodes, [value("x", FLOAT, ["batch", 5])], [value("logits", FLOAT, ["batch", 4])], initializers))
t.safetensors(sys.argv[1] + "/batch.safetensors", {"step0.x": ("F32", [6, 5], r.reals(30)), "step0.target": ("I64", [6], r.ints(6, 4))})
