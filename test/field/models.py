"""Small models of what is met in the field, for models.sh.  models.py FOLDER"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from onnx_writer import *
from tensors import Random

folder, random = sys.argv[1], Random(11)


def weight(name, *dims):
    n = 1
    for d in dims: n *= d
    return tensor(name, FLOAT, dims, [r / 2 for r in random.reals(n)])


def write(name, nodes, inputs, outputs, initializers=(), **more): model("%s/%s.onnx" % (folder, name), graph(nodes, inputs, outputs, initializers), **more)


def ints(name, *values): return tensor(name, INT64, [len(values)], values)


X, Y = [value("x", FLOAT, ["batch", 4])], [value("y", FLOAT, ["batch", 3])]
W = weight("fc.weight", 4, 3)
FC = node("MatMul", ["h", "fc.weight"], ["y"], "/fc")

# A product whose operands' leading dims are broadcast, all of them dynamic: the smaller operand's gradient is summed over them.
write("matmul_broadcast", [node("MatMul", ["x", "w"], ["a"], "/w"), node("MatMul", ["a", "per_head"], ["b"], "/per_head"),
                           node("MatMul", ["b", "one"], ["c"], "/one"), node("MatMul", ["c", "vector"], ["y"], "/vector")],
      [value("x", FLOAT, ["batch", 2, "seq", 4])], [value("y", FLOAT, ["batch", 2, "seq"])],
      [weight("w", 4, 6), weight("per_head", 2, 6, 3), weight("one", 1, 1, 3, 5), weight("vector", 5)])
# Both operands are data, of which one is broadcast over the batch.
write("matmul_two", [node("MatMul", ["x", "w"], ["a"], "/w"), node("MatMul", ["v", "table"], ["b"], "/v"), node("MatMul", ["a", "b"], ["y"], "/both")],
      [value("x", FLOAT, ["batch", "seq", 4]), value("table", FLOAT, [4, "n"])], [value("y", FLOAT, ["batch", "seq", "n"])],
      [weight("w", 4, 3), weight("v", 3, 4)])

# LayerNormalization with one output, with empty names for the others, without a bias.
write("layer_norm", [node("LayerNormalization", ["x", "gain", "bias"], ["a"], "/one", axis=-1, epsilon=1e-5),
                     node("LayerNormalization", ["a", "gain2"], ["b", "", ""], "/empty"), node("MatMul", ["b", "fc.weight"], ["c"], "/fc"),
                     node("LayerNormalization", ["c", "gain3"], ["y", "mean"], "/mean")],
      X, Y, [weight("gain", 4), weight("bias", 4), weight("gain2", 4), weight("gain3", 3), W], opset=17)

# Concat with what holds nothing: exporters leave such operands behind.
write("concat_empty", [node("Concat", ["none", "x", "none"], ["h"], "/rows", axis=0), FC], X, Y, [tensor("none", FLOAT, [0, 4], []), W])
# The same in a list of sizes.
write("concat_empty_sizes", [node("Shape", ["x"], ["size"]), node("Concat", ["none", "size", "none"], ["sizes"], "/sizes", axis=0),
                             node("Reshape", ["x", "sizes"], ["h"], "/reshape"), FC], X, Y, [tensor("none", INT64, [0], []), W])

write("constant_of_shape", [node("ConstantOfShape", ["sizes"], ["c"], "/zeros"), node("Add", ["x", "c"], ["h"], "/add"), FC], X, Y, [ints("sizes", -1, 4), W])

# Names of symbols: digits, a star, nothing.  Two nothings are two symbols.
write("symbol_digits", [node("Add", ["x", "z"], ["h"], "/add"), FC], [value("x", FLOAT, ["2", 4]), value("z", FLOAT, ["2", 4])], [value("y", FLOAT, ["2", 3])], [W])
write("symbol_star", [node("ReduceMean", ["x", "axes"], ["h"], "/mean", keepdims=0), FC], [value("x", FLOAT, ["*", "**", 4])], [value("y", FLOAT, ["*", 3])], [ints("axes", 1), W])
write("symbol_empty", [node("ReduceMean", ["x", "axes"], ["h"], "/mean", keepdims=0), FC], [value("x", FLOAT, ["", "", 4])], [value("y", FLOAT, ["", 3])], [ints("axes", 1), W])

# An output of which the model says the type alone, or nothing.
def untyped(name, typed): return part(1, name) + (part(2, part(1, number(1, FLOAT))) if typed else b"")
write("no_output_shape", [node("Relu", ["x"], ["h"]), FC], X, [untyped("y", True)], [W])
write("no_output_type", [node("Relu", ["x"], ["h"]), FC], X, [untyped("y", False)], [W])

# Shapes that can never agree, though they hold equally many elements.
write("equal_counts", [node("Relu", ["x"], ["h"]), FC, node("Add", ["y", "w"], ["z"], "/add")], [value("x", FLOAT, [2, 4])], [value("z", FLOAT, [2, 3])],
      [W, weight("w", 3, 2)])
write("shared_symbol", [node("Add", ["a", "b"], ["h"], "/add"), FC], [value("a", FLOAT, ["batch", "seq", 4]), value("b", FLOAT, ["batch", "seq", 4])],
      [value("y", FLOAT, ["batch", "seq", 3])], [W])

# A choice in a choice in a choice; values of every outer graph are read inside.
def choose(name, condition, then, other, out): return node("If", [condition], [out], name, then_branch=then, else_branch=other)
inner = lambda scale: body([node("MatMul", ["deep", scale], ["t"], "/times"), node("Add", ["t", "x"], ["r"], "/plus")], [], [value("r", FLOAT, ["batch", 4])])
second = body([node("Tanh", ["x"], ["deep"], "/deep"), choose("/third", "c3", inner("s1"), inner("s2"), "r")], [], [value("r", FLOAT, ["batch", 4])])
first = body([choose("/second", "c2", second, body([node("MatMul", ["x", "s2"], ["r"])], [], [value("r", FLOAT, ["batch", 4])]), "r")], [], [value("r", FLOAT, ["batch", 4])])
write("if_three_deep", [choose("/first", "c1", first, body([node("Neg", ["x"], ["r"])], [], [value("r", FLOAT, ["batch", 4])]), "h"), FC],
      X + [value("c%d" % i, BOOL, []) for i in (1, 2, 3)], Y, [W, weight("s1", 4, 4), weight("s2", 4, 4)])
# A loop in a choice in a loop.
counter = [value("i", INT64, []), value("go", BOOL, [])]
step = body([node("Identity", ["go"], ["go_on"]), node("MatMul", ["h_in", "s1"], ["m"]), node("Tanh", ["m"], ["h_out"])],
            counter + [value("h_in", FLOAT, ["batch", 4])], [value("go_on", BOOL, []), value("h_out", FLOAT, ["batch", 4])])
again = body([node("Loop", ["three", "", "o_in"], ["r"], "/inner", body=step)], [], [value("r", FLOAT, ["batch", 4])])
other = body([node("MatMul", ["o_in", "s2"], ["r"])], [], [value("r", FLOAT, ["batch", 4])])
outer = body([node("Identity", ["go"], ["go_on"]), choose("/choice", "c1", again, other, "o_out")],
             counter + [value("o_in", FLOAT, ["batch", 4])], [value("go_on", BOOL, []), value("o_out", FLOAT, ["batch", 4])])
write("loop_if_loop", [node("Loop", ["two", "", "x"], ["h"], "/outer", body=outer), FC], X + [value("c1", BOOL, [])], Y,
      [W, weight("s1", 4, 4), weight("s2", 4, 4), tensor("two", INT64, [], [2]), tensor("three", INT64, [], [3])])

# Names that are no names in C, or longer than a line.
LONG = "a.b" * 100
write("names", [node("Add", ["in/put:0", "float"], ["1"], "12"), node("MatMul", ["1", LONG], ["return"], "/x/../y"), node("Mul", ["return", "0"], ["2"], "*/ int"),
                node("Add", ["2", "a/b"], ["while"], "")],
      [value("in/put:0", FLOAT, ["batch:0*/size", 4])], [value("while", FLOAT, ["batch:0*/size", 3])],
      [weight("float", 4), weight(LONG, 4, 3), weight("0", 3), weight("a/b", 3)])

# A number as an attribute.
write("constant_int", [node("Constant", [], ["two"], value_int=2), node("Cast", ["two"], ["float_two"], to=FLOAT), node("Mul", ["x", "float_two"], ["h"]), FC], X, Y, [W])

# A domain imported twice.
def twice(path, versions):
    g = graph([node("Relu", ["x"], ["h"]), FC], X, Y, [W])
    with open("%s/%s.onnx" % (folder, path), "wb") as f:
        f.write(number(1, 8) + part(2, "test") + b"".join(part(8, part(1, d) + number(2, v)) for d, v in versions) + part(7, g))
twice("opset_twice", [("", 17), ("ai.onnx.ml", 3), ("", 17)])
twice("opset_two_names", [("", 17), ("ai.onnx", 17)])
twice("opset_two_versions", [("", 17), ("", 11)])

# A BatchNormalization that the exporter folded into the Conv before it.
write("folded", [node("Conv", ["x", "onnx::Conv_12", "onnx::Conv_13"], ["h"], "/conv/Conv", kernel_shape=[3], pads=[1, 1]), node("Relu", ["h"], ["r"], "/relu/Relu"),
                 node("ReduceMean", ["r", "axes"], ["y"], "/mean", keepdims=0)],
      [value("x", FLOAT, ["batch", 4, "length"])], [value("y", FLOAT, ["batch", 3])], [weight("onnx::Conv_12", 3, 4, 3), weight("onnx::Conv_13", 3), ints("axes", 2)])
