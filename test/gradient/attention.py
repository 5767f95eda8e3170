"""A decoder of one layer: causal self-attention with padding, its keys repeated for the queries that share them, then attention to another
sequence by the operator, with a mask of its own.  attention.py FOLDER: model.onnx, and batch_M_N.safetensors of odd sizes,
and alike_M_N.safetensors, where some rows have no key."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t
from onnx_writer import *

r = t.Random(11)
weight = lambda name, *dims: tensor(name, FLOAT, dims, r.reals(t.product(dims)))
constant = lambda name, *numbers: tensor(name, INT64, [len(numbers)], numbers)
scalar = lambda name, dtype, number: tensor(name, dtype, [], [number])
split = lambda x, y: [node("Reshape", [x, "split" + y[0]], [y + "4"]), node("Transpose", [y + "4"], [y], perm=[0, 2, 1, 3])]
repeat = lambda x, y, merge: [node("Unsqueeze", [x, "axis2"], [y + "1"]), node("Expand", [y + "1", "twice"], [y + "2"]), node("Reshape", [y + "2", merge], [y])]
nodes = [
    node("MatMul", ["x", "wq"], ["xq"]), node("MatMul", ["x", "wk"], ["xk"]), node("MatMul", ["x", "wv"], ["xv"]),
    *split("xq", "q"), *split("xk", "k"), *split("xv", "v"), *repeat("k", "keys", "merge_keys"), *repeat("v", "values", "merge_values"),
    node("Transpose", ["keys"], ["keys_t"], perm=[0, 1, 3, 2]),
    node("MatMul", ["q", "keys_t"], ["raw"]), node("Mul", ["raw", "inverse_root"], ["scores"]),
    node("Shape", ["x"], ["length1"], start=1, end=2), node("Squeeze", ["length1"], ["length"]), node("Range", ["zero", "length", "one"], ["places"]),
    node("Unsqueeze", ["places", "axis0"], ["key_places"]), node("Unsqueeze", ["places", "axis1"], ["query_places"]),
    node("LessOrEqual", ["key_places", "query_places"], ["causal"]),
    node("Unsqueeze", ["real", "axes12"], ["real4"]), node("And", ["causal", "real4"], ["allowed"]),
    node("Where", ["allowed", "nothing", "lowest"], ["mask"]), node("Add", ["scores", "mask"], ["masked"]),
    node("Softmax", ["masked"], ["p"], axis=-1), node("MatMul", ["p", "values"], ["y"]),
    node("Transpose", ["y"], ["yt"], perm=[0, 2, 1, 3]), node("Reshape", ["yt", "join"], ["joined"]), node("MatMul", ["joined", "wo"], ["out"]),
    node("Add", ["x", "out"], ["h"]),
    node("MatMul", ["h", "cq"], ["hq"]), node("MatMul", ["u", "ck"], ["uk"]), node("MatMul", ["u", "cv"], ["uv"]),
    node("Unsqueeze", ["known", "axes12"], ["known4"]),
    node("Attention", ["hq", "uk", "uv", "known4"], ["crossed"], q_num_heads=4, kv_num_heads=2, softcap=3.0),
    node("MatMul", ["crossed", "co"], ["last"]),
]
initializers = [
    weight("wq", 12, 32), weight("wk", 12, 16), weight("wv", 12, 20), weight("wo", 40, 12), weight("cq", 12, 32), weight("ck", 12, 16), weight("cv", 12, 12), weight("co", 24, 12),
    constant("splitq", 0, 0, 4, 8), constant("splitk", 0, 0, 2, 8), constant("splitv", 0, 0, 2, 10), constant("merge_keys", 0, 4, -1, 8), constant("merge_values", 0, 4, -1, 10), constant("join", 0, 0, 40),
    constant("axis0", 0), constant("axis1", 1), constant("axis2", 2), constant("axes12", 1, 2), constant("twice", 1, 1, 2, 1, 1),
    scalar("zero", INT64, 0), scalar("one", INT64, 1), scalar("inverse_root", FLOAT, 0.35), scalar("nothing", FLOAT, 0.0), scalar("lowest", FLOAT, -3.4028234663852886e38),
]
inputs = [value("x", FLOAT, ["batch", "m", 12]), value("u", FLOAT, ["batch", "n", 12]), value("real", BOOL, ["batch", "m"]), value("known", BOOL, ["batch", "n"])]
model(sys.argv[1] + "/model.onnx", graph(nodes, inputs, [value("last", FLOAT, ["batch", "m", 12])], initializers), opset=23)
for m, n, alike in (5, 9, 0), (1, 7, 0), (66, 130, 0), (70, 3, 1):
    batch = 3
    real = [int(r.ints(1, 4)[0] > 0) for _ in range(batch * m)]
    known = [int(r.ints(1, 4)[0] > 0) for _ in range(batch * n)]
    real[::m] = [1] * batch  # causally each query has a key
    if alike: real[:m // 2] = [0] * (m // 2)  # these queries have none, and look at all alike: no small change of scores makes a difference
    known[:n] = [0] * n  # the first sample has none: 0
    t.safetensors(sys.argv[1] + "/%s_%d_%d.safetensors" % ("alike" if alike else "batch", m, n), {
        "step0.x": ("F32", [batch, m, 12], r.reals(batch * m * 12)), "step0.u": ("F32", [batch, n, 12], r.reals(batch * n * 12)),
        "step0.real": ("BOOL", [batch, m], real), "step0.known": ("BOOL", [batch, n], known), "step0.target": ("F32", [batch, m, 12], r.reals(batch * m * 12))})
