"""A classifier with dropout and batch norm as they are in training.  dropout.py MODEL.onnx"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t
from onnx_writer import *

r = t.Random(9)
weight = lambda name, *dims: tensor(name, FLOAT, dims, r.reals(t.product(dims)))
full = lambda name, value, *dims: tensor(name, FLOAT, dims, [value] * t.product(dims))
nodes = [
    node("MatMul", ["x", "w1"], ["a"]),
    node("Add", ["a", "b1"], ["b"]),
    node("BatchNormalization", ["b", "gain", "bias", "mean", "variance"], ["c", "mean_now", "variance_now"], training_mode=1),
    node("Dropout", ["c", "ratio", "yes"], ["d"], seed=3),
    node("Tanh", ["d"], ["e"]),
    node("MatMul", ["e", "w2"], ["logits"]),
]
initializers = [
    weight("w1", 5, 12), weight("b1", 12), full("gain", 1.2, 12), weight("bias", 12), full("mean", 0.1, 12), full("variance", 0.9, 12),
    tensor("ratio", FLOAT, [], [0.4]), tensor("yes", BOOL, [], [True]), weight("w2", 12, 4),
]
model(sys.argv[1], graph(nodes, [value("x", FLOAT, ["batch", 5])], [value("logits", FLOAT, ["batch", 4])], initializers))
