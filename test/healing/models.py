"""Small models whose batches go wrong in as many ways as there are, for anomalies.sh.  models.py FOLDER

window   a convolution over channels of a window: (batch, 3, time); of a time of 4 nothing comes out, of less not even that
tokens   token embeddings under a mask: ids and mask (batch, seq), a class for each token
chosen   the rows of x that a flag of the data chooses: how many is known late
matched  the same, added to as many rows of z: a guard that can be judged only then
pyramid  a pool, stretched to the size it was made of and added to it: an image smaller than the pool's window leaves nothing to stretch
choice   the two highest of what a pool gives of the time, and a table's rows for the places of the highest
best     of each column of the rows that a flag chooses the highest one's row: of no rows there is none
computed rows of a table for numbers that the model makes of floats
places   ten operators that pick or put elements, each at a place that the model makes of a float
distinct the different ids of a batch, a table's rows for them
halves   a reshape to a size that the model divides by: half the time
log      the logarithm of a sum that may be negative
arcsine  of a product: finite at 1, where its gradient is not
roots    powers of products element by element: of 0 finite, its weight's gradient is not
spread   a batch norm in training mode, whose variance may be too large for a float
"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from onnx_writer import *
from tensors import Random

folder, random = sys.argv[1], Random(5)


def weight(name, *dims):
    n = 1
    for d in dims: n *= d
    return tensor(name, FLOAT, dims, [r / 2 for r in random.reals(n)])


def ints(name, *values): return tensor(name, INT64, [len(values)], values)


def write(name, nodes, inputs, outputs, initializers, opset=18): model("%s/%s.onnx" % (folder, name), graph(nodes, inputs, outputs, initializers), opset)


write("window", [node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], "/conv", kernel_shape=[5]), node("Tanh", ["c"], ["t"], "/tanh"),
                 node("ReduceMean", ["t", "last"], ["m"], "/mean", keepdims=0), node("Gemm", ["m", "fc.weight", "fc.bias"], ["y"], "/fc")],
      [value("x", FLOAT, ["batch", 3, "time"])], [value("y", FLOAT, ["batch", 2])],
      [weight("conv.weight", 4, 3, 5), weight("conv.bias", 4), weight("fc.weight", 4, 2), weight("fc.bias", 2), ints("last", 2)])

write("tokens", [node("Gather", ["table", "ids"], ["e"], "/table"), node("Unsqueeze", ["mask", "last"], ["m"], "/mask"), node("Mul", ["e", "m"], ["h"], "/masked"),
                 node("MatMul", ["h", "fc.weight"], ["logits"], "/fc")],
      [value("ids", INT64, ["batch", "seq"]), value("mask", FLOAT, ["batch", "seq"])], [value("logits", FLOAT, ["batch", "seq", 3])],
      [weight("table", 11, 4), weight("fc.weight", 4, 3), ints("last", 2)])

write("chosen", [node("NonZero", ["flag"], ["n"], "/chosen"), node("Reshape", ["n", "flat"], ["rows"], "/rows"), node("Gather", ["x", "rows"], ["some"], "/gather", axis=0),
                 node("MatMul", ["some", "fc.weight"], ["h"], "/fc"), node("Tanh", ["h"], ["t"], "/tanh"), node("ReduceSum", ["t", "first"], ["y"], "/sum", keepdims=0)],
      [value("x", FLOAT, ["batch", 4]), value("flag", BOOL, ["batch"])], [value("y", FLOAT, [3])], [weight("fc.weight", 4, 3), ints("flat", -1), ints("first", 0)])
write("matched", [node("NonZero", ["flag"], ["n"], "/chosen"), node("Reshape", ["n", "flat"], ["rows"], "/rows"), node("Gather", ["x", "rows"], ["some"], "/gather", axis=0),
                  node("MatMul", ["some", "fc.weight"], ["h"], "/fc"), node("Add", ["h", "z"], ["a"], "/add"), node("Tanh", ["a"], ["t"], "/tanh"),
                  node("ReduceSum", ["t", "first"], ["y"], "/sum", keepdims=0)],
      [value("x", FLOAT, ["batch", 4]), value("flag", BOOL, ["batch"]), value("z", FLOAT, ["some", 3])], [value("y", FLOAT, [3])],
      [weight("fc.weight", 4, 3), ints("flat", -1), ints("first", 0)])

write("pyramid", [node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], "/conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]), node("Tanh", ["c"], ["t"], "/tanh"),
                  node("MaxPool", ["t"], ["small"], "/pool", kernel_shape=[2, 2], strides=[2, 2]), node("Shape", ["t"], ["size"], "/size"),
                  node("Resize", ["small", "", "", "size"], ["large"], "/resize", mode="linear"), node("Add", ["t", "large"], ["a"], "/add"),
                  node("ReduceMean", ["a", "last"], ["m"], "/mean", keepdims=0), node("Gemm", ["m", "fc.weight", "fc.bias"], ["y"], "/fc")],
      [value("x", FLOAT, ["batch", 2, "height", "width"])], [value("y", FLOAT, ["batch", 2])],
      [weight("conv.weight", 4, 2, 3, 3), weight("conv.bias", 4), weight("fc.weight", 4, 2), weight("fc.bias", 2), ints("last", 2, 3)])
write("choice", [node("MaxPool", ["x"], ["p"], "/pool", kernel_shape=[4], strides=[4]), node("ArgMax", ["p"], ["place"], "/best", axis=2, keepdims=0),
                 node("Gather", ["table", "place"], ["e"], "/table"), node("TopK", ["p", "two"], ["v", "i"], "/top", axis=2), node("Mul", ["v", "scale"], ["s"], "/scale"),
                 node("Add", ["e", "s"], ["a"], "/add"), node("ReduceMean", ["a", "last"], ["y"], "/mean", keepdims=0)],
      [value("x", FLOAT, ["batch", 3, "time"])], [value("y", FLOAT, ["batch", 3])], [weight("table", 64, 2), weight("scale", 2), ints("two", 2), ints("last", 2)])

write("halves", [node("Shape", ["x"], ["size"], "/size"), node("Gather", ["size", "second"], ["time"], "/time", axis=0), node("Div", ["time", "two"], ["half"], "/half"),
                 node("Concat", ["half", "rest", "two"], ["to"], "/to", axis=0), node("Reshape", ["x", "to"], ["r"], "/reshape"),
                 node("MatMul", ["r", "fc.weight"], ["h"], "/fc"), node("ReduceMean", ["h", "first"], ["y"], "/mean", keepdims=0)],
      [value("x", FLOAT, ["batch", "time", 2])], [value("y", FLOAT, [2])],
      [weight("fc.weight", 2, 2), ints("two", 2), ints("second", 1), ints("rest", -1), ints("first", 0, 1)])

write("computed", [node("Cast", ["x"], ["place"], "/cast", to=INT64), node("Gather", ["table", "place"], ["y"], "/table", axis=0)],
      [value("x", FLOAT, ["batch"])], [value("y", FLOAT, ["batch", 2])], [weight("table", 8, 2)])
def places():
    """Of x (2, 4, 2), also as a matrix of 4 rows."""
    nodes, given = [node("Reshape", ["x", "matrix"], ["m"], "/matrix")], [weight("scale", 1, 1), ints("matrix", 4, 4), ints("zero", 0), ints("one", 1), ints("two", 2)]

    def add(op, inputs, name, **attributes):
        nodes.append(node(op, inputs, [name], "/" + name, **attributes))
        return name

    def shaped(v, name, *dims):
        given.append(ints(name + ".dims", *dims))
        return add("Reshape", [v, name + ".dims"], name)

    def number(k):
        given.append(ints("k%d" % k, k))
        given.append(ints("k%d.end" % k, k + 1))
        return add("Slice", ["at", "k%d" % k, "k%d.end" % k], "number%d" % k)

    def place(k): return add("Cast", [number(k)], "place%d" % k, to=INT64)

    def reals(name, *dims):
        given.append(weight(name, *dims))
        return name

    def pair(k, other): return add("Concat", [other, place(k)], "pair%d" % k, axis=0)
    y = [add("ReverseSequence", ["x", pair(0, "two")], "reverse", time_axis=1, batch_axis=0)]
    log = shaped(add("Log", [number(1)], "log"), "where", 1, 1, 1, 1)
    y.append(add("GridSample", [shaped("x", "image", 1, 1, 4, 4), add("Concat", [log, log], "grid", axis=3)], "sampled", mode="nearest"))
    y.append(add("GatherElements", ["m", shaped(place(2), "element", 1, 1)], "elements", axis=1))
    y.append(add("GatherND", ["m", shaped(pair(3, "one"), "nd", 1, 2)], "gathered"))
    y.append(add("ScatterElements", ["m", shaped(place(4), "put", 1, 1), reals("update", 1, 1)], "scattered", axis=1))
    y.append(add("ScatterND", ["m", shaped(pair(5, "one"), "put_nd", 1, 2), reals("update_nd", 1)], "scattered_nd"))
    y.append(add("RotaryEmbedding", [shaped("x", "head", 1, 1, 4, 4), reals("cosines", 8, 2), reals("sines", 8, 2),
                                     add("Expand", [shaped(place(6), "position", 1, 1), shaped_dims(given)], "positions")], "rotated"))
    given.append(tensor("rois", FLOAT, [1, 4], [0.0, 0.0, 1.0, 1.0]))
    y.append(add("RoiAlign", [shaped("x", "maps", 2, 1, 2, 4), "rois", place(7)], "aligned", sampling_ratio=1))
    y.append(add("MaxUnpool", [shaped(reals("pooled", 1), "small", 1, 1, 1, 1), shaped(place(8), "largest", 1, 1, 1, 1)], "unpooled", kernel_shape=[2, 2], strides=[2, 2]))
    y.append(add("TensorScatter", ["x", reals("token", 2, 1, 2), pair(9, "zero")], "cache", axis=1))
    means = [shaped(add("ReduceMean", [v], "mean%d" % k, keepdims=0), "one%d" % k, 1) for k, v in enumerate(y)]
    rows = shaped(add("Concat", means, "means", axis=0), "column", 10, 1)
    shaped(add("MatMul", [rows, "scale"], "product"), "y", 10)
    return nodes, given


def shaped_dims(given):
    given.append(ints("times", 1, 4))
    return "times"


nodes, given = places()
write("places", nodes, [value("x", FLOAT, [2, 4, 2]), value("at", FLOAT, [10])], [value("y", FLOAT, [10])], given, opset=24)
write("distinct", [node("Unique", ["ids"], ["id", "first", "inverse", "counts"], "/distinct"), node("Gather", ["table", "id"], ["rows"], "/table"),
                   node("Gather", ["rows", "inverse"], ["each"], "/each"), node("MatMul", ["each", "fc.weight"], ["y"], "/fc")],
      [value("ids", INT64, ["batch"])], [value("y", FLOAT, ["batch", 3])], [weight("table", 11, 4), weight("fc.weight", 4, 3)])
write("best", [node("NonZero", ["flag"], ["n"], "/chosen"), node("Reshape", ["n", "flat"], ["rows"], "/rows"), node("Gather", ["x", "rows"], ["some"], "/gather", axis=0),
               node("ArgMax", ["some"], ["place"], "/best", axis=0, keepdims=0), node("Gather", ["some", "place"], ["high"], "/pick", axis=0),
               node("MatMul", ["high", "fc.weight"], ["h"], "/fc"), node("ReduceSum", ["h", "first"], ["y"], "/sum", keepdims=0)],
      [value("x", FLOAT, ["batch", 4]), value("flag", BOOL, ["batch"])], [value("y", FLOAT, [3])], [weight("fc.weight", 4, 3), ints("flat", -1), ints("first", 0)])

X, Y = [value("x", FLOAT, ["batch", 4])], [value("y", FLOAT, ["batch", 1])]
write("log", [node("Exp", ["x"], ["e"], "/exp"), node("MatMul", ["e", "fc.weight"], ["h"], "/fc"), node("Log", ["h"], ["l"], "/log"), node("Tanh", ["l"], ["y"], "/tanh")],
      X, Y, [tensor("fc.weight", FLOAT, [4, 1], [1.0, 0.5, 0.5, -1.0])])
write("roots", [node("Mul", ["x", "scale"], ["p"], "/scale"), node("Pow", ["p", "exponent"], ["r"], "/root"), node("Add", ["r", "bias"], ["a"], "/bias"),
                node("ReduceSum", ["a", "last"], ["y"], "/sum", keepdims=1)], X, Y,
      [tensor("scale", FLOAT, [4], [1.0, 0.5, 0.25, 0.75]), tensor("bias", FLOAT, [4], [0.1, 0.2, 0.3, 0.4]), ints("last", 1), tensor("exponent", FLOAT, [], [0.75])])
write("spread", [node("BatchNormalization", ["x", "norm.weight", "norm.bias", "norm.mean", "norm.var"], ["n", "mean_out", "var_out"], "/norm", training_mode=1),
                 node("MatMul", ["n", "fc.weight"], ["y"], "/fc")], X, Y,
      [tensor("norm.weight", FLOAT, [4], [1.0] * 4), tensor("norm.bias", FLOAT, [4], [0.0] * 4), tensor("norm.mean", FLOAT, [4], [0.0] * 4),
       tensor("norm.var", FLOAT, [4], [1.0] * 4), tensor("fc.weight", FLOAT, [4, 1], [0.5, 0.25, -0.25, 0.125])])
write("arcsine", [node("MatMul", ["x", "fc.weight"], ["h"], "/fc"), node("Asin", ["h"], ["y"], "/asin")], X, Y,
      [tensor("fc.weight", FLOAT, [4, 1], [1.0, 0.25, 0.25, 0.25])])
