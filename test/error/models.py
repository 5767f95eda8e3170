"""Models that can be read but not compiled, for models.sh.  models.py FOLDER"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from onnx_writer import *

folder = sys.argv[1]
X = [value("x", FLOAT, ["batch", 4])]
W = tensor("fc.weight", FLOAT, [4, 3], [0.1 * i for i in range(12)])
B = tensor("fc.bias", FLOAT, [3], [0.0, 0.1, 0.2])
Y = [value("y", FLOAT, ["batch", 3])]
LAST = node("Gemm", ["h", "fc.weight", "fc.bias"], ["y"], "/fc")


def write(name, nodes, inputs=X, outputs=Y, initializers=(W, B), **more): model("%s/%s.onnx" % (folder, name), graph(nodes, inputs, outputs, initializers), **more)


def before(*nodes, **more): return list(nodes) + [LAST]


write("good", before(node("Relu", ["x"], ["h"])))
write("unknown", before(node("FancyNorm", ["x"], ["a"], "/norm_1"), node("FancyNorm", ["a"], ["b"], "/norm_2"), node("Swirl", ["b"], ["c"], "/swirl"),
                        node("Relu", ["c"], ["d"]), node("MyAttention", ["d"], ["h"], "/attn", "my.company")), domains=["my.company"])
write("misspelt", before(node("LayerNormalisation", ["x", "fc.bias"], ["h"], "/ln")))
write("future", before(node("Relu", ["x"], ["h"])), opset=99)
write("bool_add", before(node("Greater", ["x", "x"], ["g"]), node("Add", ["g", "g"], ["s"], "/add"), node("Cast", ["s"], ["h"], to=FLOAT)))
write("float_and", before(node("And", ["x", "x"], ["a"], "/and"), node("Cast", ["a"], ["h"], to=FLOAT)))
write("mixed", before(node("Cast", ["x"], ["i"], to=INT64), node("Mul", ["x", "i"], ["h"], "/mul")))
write("float_indices", [node("Gather", ["fc.weight", "x"], ["y"], "/gather")])
write("string", before(node("StringNormalizer", ["s"], ["t"], "/text"), node("Relu", ["x"], ["h"])), inputs=X + [value("s", STRING, ["batch"])])
write("inner_sizes", [node("MatMul", ["x", "w"], ["y"], "/matmul")], initializers=[tensor("w", FLOAT, [5, 3], [0.5] * 15)])
write("broadcast", before(node("Add", ["x", "fc.bias"], ["h"], "/add")))
write("too_few", before(node("MatMul", ["x"], ["h"], "/matmul")))
write("bad_axis", before(node("Softmax", ["x"], ["h"], "/softmax", axis=7)))
write("bad_permutation", before(node("Transpose", ["x"], ["h"], "/transpose", perm=[0, 0])))
write("bad_reshape", [node("Constant", [], ["s"], value=("", INT64, [2], [3, 7])), node("Reshape", ["fc.weight", "s"], ["r"], "/reshape"), node("MatMul", ["h", "r"], ["y"]), node("Relu", ["x"], ["h"])])
write("attribute_type", before(node("Softmax", ["x"], ["h"], "/softmax", axis="last")))
write("nothing_trains", [node("Relu", ["x"], ["y"])], initializers=(), outputs=[value("y", FLOAT, ["batch", 4])])
write("no_inputs", [node("Relu", ["fc.weight"], ["y"])], inputs=[])
write("no_outputs", before(node("Relu", ["x"], ["h"])), outputs=[])
write("two_outputs", before(node("Relu", ["x"], ["h"])) + [node("Tanh", ["y"], ["z"])], outputs=Y + [value("z", FLOAT, ["batch", 3])])
write("no_type", before(node("Relu", ["x"], ["h"])), inputs=[part(1, "x")])
write("no_rank", before(node("Relu", ["x"], ["h"])), inputs=[part(1, "x") + part(2, part(1, number(1, FLOAT)))])
write("contrast", [node("Reshape", ["x", "s"], ["r"], "/reshape"), node("Gemm", ["r", "fc.weight"], ["y"], "/fc")], initializers=[W, tensor("s", INT64, [2], [-1, 4])],
      inputs=[value("x", FLOAT, ["batch", "wide"])])
write("zero_dim", [node("MatMul", ["x", "w"], ["y"], "/matmul")], inputs=[value("x", FLOAT, ["batch", 0])], initializers=[tensor("w", FLOAT, [0, 3], [])])
write("huge_dim", [node("Expand", ["fc.bias", "s"], ["e"], "/expand"), node("ReduceSum", ["e"], ["h"], "/sum", keepdims=0), node("Add", ["x", "h"], ["y"], "/add")],
      initializers=[B, tensor("s", INT64, [3], [1 << 40, 1 << 40, 3])], outputs=[value("y", FLOAT, ["batch", 4])])
