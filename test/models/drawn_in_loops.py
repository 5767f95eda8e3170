"""Loops whose bodies draw random numbers.  drawn_in_loops.py model|check FOLDER

walked: a Loop of as many iterations as x has rows stacks uniform numbers; nested: a Loop in it draws again for each;
scanned: a Scan's; ended: a Loop that ends by what it computes adds up normal numbers, and their squares."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t
from onnx_writer import *

ROWS, INNER, WIDE = 40, 30, 25


def write(folder):
    step = [value("i", INT64, []), value("on", BOOL, [])]
    draw = body([node("Identity", ["on"], ["on_"]), node("RandomUniform", [], ["u"], shape=[WIDE])], step, [value("on_", BOOL, []), value("u", FLOAT, [WIDE])])
    inner = body([node("Identity", ["on2"], ["on2_"]), node("RandomUniform", [], ["v"], shape=[WIDE])], [value("j", INT64, []), value("on2", BOOL, [])],
                 [value("on2_", BOOL, []), value("v", FLOAT, [WIDE])])
    outer = body([node("Identity", ["on"], ["on_"]), node("Loop", ["columns", "on"], ["vs"], body=inner)], step,
                 [value("on_", BOOL, []), value("vs", FLOAT, ["columns", WIDE])])
    scan = body([node("RandomUniformLike", ["row"], ["w"])], [value("row", FLOAT, ["columns"])], [value("w", FLOAT, ["columns"])])
    ended = body([node("RandomNormal", [], ["n"], shape=[WIDE]), node("Mul", ["n", "n"], ["n2"]), node("Add", ["sum", "n"], ["sum_"]), node("Add", ["squares", "n2"], ["squares_"]),
                  node("ReduceMax", ["squares_"], ["most"], keepdims=0), node("Less", ["most", "bound"], ["on_"])],
                 step + [value("sum", FLOAT, [WIDE]), value("squares", FLOAT, [WIDE])], [value("on_", BOOL, []), value("sum_", FLOAT, [WIDE]), value("squares_", FLOAT, [WIDE])])
    nodes = [node("Shape", ["x"], ["rows"], end=1), node("Shape", ["x"], ["columns"], start=1), node("Loop", ["rows", "yes"], ["walked"], body=draw),
             node("Loop", ["rows", "yes"], ["nested"], body=outer), node("Scan", ["x"], ["scanned"], body=scan, num_scan_inputs=1),
             node("Loop", ["", "yes", "zero", "zero"], ["sum", "squares"], body=ended)]
    initializers = [tensor("yes", BOOL, [], [True]), tensor("zero", FLOAT, [WIDE], [0.0] * WIDE), tensor("bound", FLOAT, [], [60.0])]
    outputs = [value("walked", FLOAT, ["rows", WIDE]), value("nested", FLOAT, ["rows", "columns", WIDE]), value("scanned", FLOAT, ["rows", "columns"]),
               value("sum", FLOAT, [WIDE]), value("squares", FLOAT, [WIDE])]
    model(folder + "/model.onnx", graph(nodes, [value("x", FLOAT, ["rows", "columns"])], outputs, initializers))
    t.safetensors(folder + "/inputs.safetensors", {"x": ("F32", [ROWS, INNER], [0.0] * (ROWS * INNER))})


def check(folder):
    have, _ = t.read(folder + "/first.safetensors")
    for name in ("walked", "nested", "scanned"):
        numbers = t.numbers(have[name])
        mean = sum(numbers) / len(numbers)
        variance = sum((v - mean)**2 for v in numbers) / len(numbers)
        different = len(set(numbers)) / len(numbers)
        assert different > 0.99, "%s: of %d numbers %d are different" % (name, len(numbers), len(set(numbers)))
        assert abs(mean - 0.5) < 0.03 and abs(variance - 1 / 12) < 0.01, (name, mean, variance)
    # equal numbers in each iteration would give sum^2 = iterations * squares, which is at least some 30 times as much
    ratio = sum(s * s for s in t.numbers(have["sum"])) / sum(t.numbers(have["squares"]))
    assert ratio < 5, "numbers of the loop that ends by what it computes are alike: %g" % ratio
    print("random numbers differ by iteration")


write(sys.argv[2]) if sys.argv[1] == "model" else check(sys.argv[2])
