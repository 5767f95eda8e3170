"""optimum_models.py FOLDER: a few models whose training steps have at most 25 kernels."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import onnx_writer as w

folder = sys.argv[1]
WIDE = 48


def weights(name, *dims):
    n = 1
    for d in dims: n *= d
    return w.tensor(name, w.FLOAT, dims, [((i * 37) % 101 - 50) / 500 for i in range(n)])


def model(name, layer, layers):
    nodes, initializers, x = [], [], "x"
    for i in range(layers):
        made, tensors, x = layer(i, x)
        nodes += made
        initializers += tensors
    nodes.append(w.node("Identity", [x], ["out"]))
    w.model(os.path.join(folder, name + ".onnx"), w.graph(nodes, inputs=[w.value("x", w.FLOAT, ["batch", WIDE])],
                                                          outputs=[w.value("out", w.FLOAT, ["batch", WIDE])], initializers=initializers))


def tanh_layer(i, x):
    return [w.node("MatMul", [x, "w%d" % i], ["h%d" % i]), w.node("Tanh", ["h%d" % i], ["y%d" % i])], [weights("w%d" % i, WIDE, WIDE)], "y%d" % i


def residual_layer(i, x):
    nodes = [w.node("MatMul", [x, "u%d" % i], ["h%d" % i]), w.node("Relu", ["h%d" % i], ["r%d" % i]),
             w.node("MatMul", ["r%d" % i, "v%d" % i], ["d%d" % i]), w.node("Add", [x, "d%d" % i], ["y%d" % i])]
    return nodes, [weights("u%d" % i, WIDE, 3 * WIDE), weights("v%d" % i, 3 * WIDE, WIDE)], "y%d" % i


def softmax_layer(i, x):
    nodes = [w.node("MatMul", [x, "w%d" % i], ["h%d" % i]), w.node("Softmax", ["h%d" % i], ["s%d" % i]), w.node("Mul", [x, "s%d" % i], ["y%d" % i])]
    return nodes, [weights("w%d" % i, WIDE, WIDE)], "y%d" % i


model("tanh", tanh_layer, 4)
model("residual", residual_layer, 2)
model("softmax", softmax_layer, 3)
