"""Small models of one operator each, whose gradients go wrong easily: ties, repeated indices, second inputs, modes that ONNX's node tests have
with integers alone.  nodes.py FOLDER: test_NAME/model.onnx, test_data_set_0/input_N.pb, as ONNX's node tests are kept
"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t
from onnx_writer import *

r = t.Random(17)
names = set()


def reals(*shape, low=-1.0, high=1.0):
    return (DOUBLE, list(shape), [low + (high - low) * (x + 1) / 2 + 1e-4 * i % 7e-3 for i, x in enumerate(r.reals(t.product(shape)))])


def numbers(values, *shape): return (DOUBLE, list(shape or [len(values)]), [float(v) for v in values])
def integers(values, *shape): return (INT64, list(shape or [len(values)]), list(values))
def truths(values, *shape): return (BOOL, list(shape or [len(values)]), [bool(v) for v in values])


def write(name, nodes, inputs, outputs, constants={}, opset=21):
    """inputs, constants: name -> (dtype, shape, values); outputs: names, of doubles of any rank"""
    assert name not in names, name
    names.add(name)
    folder = "%s/test_%s" % (sys.argv[1], name.replace(".", "_"))
    os.makedirs(folder + "/test_data_set_0", exist_ok=True)
    for i, (key, value_) in enumerate(inputs.items()):
        with open("%s/test_data_set_0/input_%d.pb" % (folder, i), "wb") as f: f.write(tensor(key, *value_))
    of_any_shape = lambda key: part(1, key) + part(2, part(1, number(1, DOUBLE)))
    model(folder + "/model.onnx",
          graph(nodes, [value(key, v[0], v[1]) for key, v in inputs.items()], [of_any_shape(key) for key in outputs],
                [tensor(key, *v) for key, v in constants.items()]), opset=opset)


def op(name, kind, inputs, outputs=1, constants={}, opset=21, **attributes):
    """One node; it takes inputs, then constants; "" among their names: absent"""
    out = ["y%d" % i for i in range(outputs)]
    write(name, [node(kind, ["" if key.startswith("absent") else key for key in [*inputs, *constants]], out, **attributes)],
          {key: v for key, v in inputs.items() if v}, out, {key: v for key, v in constants.items() if v}, opset)


# ---- broadcasting, second inputs ----
for kind in "Add", "Sub", "Mul", "Div", "Pow":
    op("broadcast_" + kind.lower(), kind, {"a": reals(2, 1, 3, low=0.4, high=2), "b": reals(4, 1, low=0.4, high=2)})
op("pow_negative_base", "Pow", {"a": numbers([-2, -1, 3, 0])}, constants={"b": numbers([3, 2, 2, 2])})
op("pow_zero_exponent", "Pow", {"a": numbers([-2, 0.5, 3]), "b": numbers([0, 0, 0])})
op("mod_of_floats", "Mod", {"a": reals(3, 4, low=-5, high=5), "b": reals(4, low=0.7, high=2)}, fmod=1)
op("where_broadcast", "Where", {"c": truths([1, 0, 1, 1, 0, 0], 2, 3), "a": reals(3), "b": reals(2, 1)})
op("clip_bounds", "Clip", {"x": numbers([-2, -0.5, 0.1, 0.8, 3]), "low": (DOUBLE, [], [-0.7]), "high": (DOUBLE, [], [0.5])})
op("clip_no_low", "Clip", {"x": numbers([-2, -0.5, 0.1, 0.8, 3]), "absent": None, "high": (DOUBLE, [], [0.5])})
op("clip_at_bounds", "Clip", {"x": numbers([-1, 0, 1]), "low": (DOUBLE, [], [-1.0]), "high": (DOUBLE, [], [1.0])})
op("prelu_channels", "PRelu", {"x": reals(2, 3, 4), "slope": reals(3, 1)})
op("max_of_three", "Max", {"a": numbers([1, 2, 3, 4]), "b": numbers([1, 3, 2, 4]), "c": numbers([1, 0, 3, 4])})
op("min_broadcast_ties", "Min", {"a": numbers([1, 2, 3, 1], 2, 2), "b": numbers([1, 2])})
op("expand", "Expand", {"x": reals(3, 1)}, constants={"to": integers([2, 3, 4])})

# ---- reductions ----
for kind in "Max", "Min":
    op("reduce_%s_ties" % kind.lower(), "Reduce" + kind, {"x": numbers([5, 1, 5, 1, 1, 5, 2, 2], 2, 4)}, constants={"axes": integers([1])})
for kind in "Sum", "Prod", "Mean", "L1", "L2", "LogSum", "LogSumExp", "SumSquare", "Max", "Min":
    op("reduce_%s_two_axes" % kind.lower(), "Reduce" + kind, {"x": reals(2, 3, 4, low=0.2, high=2)}, constants={"axes": integers([0, -1])}, keepdims=0)
for kind in "Sum", "Prod", "L1", "L2", "SumSquare":
    op("reduce_%s_of_nothing" % kind.lower(), "Reduce" + kind, {"x": (DOUBLE, [2, 0, 3], [])}, constants={"axes": integers([1])})
write("reduce_of_nothing_and_more",
      [node("Concat", ["x", "z"], ["c"], axis=1), node("ReduceSum", ["x", "axes"], ["s"]), node("ReduceProd", ["c", "axes"], ["p"]), node("Add", ["s", "p"], ["y"])],
      {"x": (DOUBLE, [2, 0, 3], []), "z": reals(2, 2, 3)}, ["y"], {"axes": integers([1])})
op("reduce_prod_a_zero", "ReduceProd", {"x": numbers([2, 0, 3, 0, 0, 5], 2, 3)}, constants={"axes": integers([1])})
op("reduce_l2_of_zeros", "ReduceL2", {"x": numbers([0, 0, 0, 3, 0, 4], 2, 3)}, constants={"axes": integers([1])})
op("reduce_logsumexp_large", "ReduceLogSumExp", {"x": numbers([700, 701, 702, -700, -701, -699], 2, 3)}, constants={"axes": integers([1])})
op("reduce_nothing_by_empty_axes", "ReduceSum", {"x": reals(2, 3)}, constants={"axes": integers([])}, noop_with_empty_axes=1)
for exclusive in 0, 1:
    for reverse in 0, 1:
        op("cumsum_%d%d" % (exclusive, reverse), "CumSum", {"x": reals(2, 4)}, constants={"axis": integers([1], 1)}, exclusive=exclusive, reverse=reverse)

# ---- index ----
op("gather_repeated", "Gather", {"x": reals(4, 3)}, constants={"i": integers([0, 0, -1, 2, 0], 5)}, axis=0)
op("gather_elements_repeated", "GatherElements", {"x": reals(3, 3)}, constants={"i": integers([0, 0, 2, 2, 2, -1], 2, 3)}, axis=0)
op("gathernd_batch", "GatherND", {"x": reals(2, 3, 4)}, constants={"i": integers([0, 1, 0, 1, 2, 3, 2, 3], 2, 2, 2)}, batch_dims=1)
for how in "none", "add", "mul", "max", "min":
    i = integers([0, 2, 1, 1], 2, 2) if how == "none" else integers([0, 2, 0, 1], 2, 2)
    op("scatter_elements_" + how, "ScatterElements", {"x": reals(3, 2), "i": i, "u": reals(2, 2)}, reduction=how, axis=0)
    i = integers([0, 2], 2, 1) if how == "none" else integers([1, 1], 2, 1)
    op("scatternd_" + how, "ScatterND", {"x": reals(3, 2), "i": i, "u": reals(2, 2)}, reduction=how)
op("slice_back", "Slice", {"x": reals(5, 6)}, constants={"from": integers([-1, 5]), "to": integers([-100, 0]), "axes": integers([0, 1]), "steps": integers([-2, -3])})
op("slice_strided", "Slice", {"x": reals(7, 3)}, constants={"from": integers([1]), "to": integers([100]), "axes": integers([0]), "steps": integers([3])})
op("trilu_upper", "Trilu", {"x": reals(2, 3, 4)}, constants={"k": (INT64, [], [1])}, upper=1)
op("trilu_lower", "Trilu", {"x": reals(4, 3)}, constants={"k": (INT64, [], [-1])}, upper=0)
for mode in "constant", "edge", "reflect", "wrap":
    op("pad_" + mode, "Pad", {"x": reals(3, 4)}, constants={"pads": integers([2, 1, 1, 3])}, mode=mode)
op("pad_value", "Pad", {"x": reals(3, 4), "pads": integers([2, 1, 0, 3]), "fill": (DOUBLE, [], [0.7])})
op("pad_crops", "Pad", {"x": reals(4, 5), "pads": integers([-1, 1, 2, -2]), "fill": (DOUBLE, [], [0.7])})
op("concat_itself", "Concat", {"a": reals(2, 3), "b": reals(2, 1)}, axis=1)
op("tile", "Tile", {"x": reals(2, 3)}, constants={"n": integers([2, 3])})
op("split_uneven", "Split", {"x": reals(2, 6)}, outputs=3, constants={"n": integers([1, 3, 2])}, axis=1)
op("topk_smallest", "TopK", {"x": reals(3, 5)}, outputs=1, constants={"k": integers([2])}, axis=1, largest=0)
op("compress", "Compress", {"x": reals(4, 2), "c": truths([1, 0, 1, 1])}, axis=0)
op("reverse_sequence", "ReverseSequence", {"x": reals(4, 3, 2)}, constants={"n": integers([2, 4, 1])}, time_axis=0, batch_axis=1)
op("depth_to_space_crd", "DepthToSpace", {"x": reals(1, 8, 2, 2)}, blocksize=2, mode="CRD")
op("onehot", "OneHot", {"i": integers([0, 2, -1]), "d": (INT64, [], [3]), "v": numbers([0.3, 1.7])}, axis=-1)
op("einsum_product", "Einsum", {"a": reals(2, 3, 4), "b": reals(2, 4, 5)}, equation="bij,bjk->bik")
op("einsum_diagonal", "Einsum", {"a": reals(3, 3, 2)}, equation="iij->ij")
op("einsum_trace", "Einsum", {"a": reals(3, 3), "b": reals(3)}, equation="ii,j->j")
op("einsum_ellipsis", "Einsum", {"a": reals(2, 1, 3, 4), "b": reals(5, 4, 2)}, equation="...ij,...jk->...ik")
op("einsum_outer_sum", "Einsum", {"a": reals(2, 3), "b": reals(4), "c": reals(3, 4)}, equation="ij,k,jk->i")

# ---- windows ----
op("maxpool_ties", "MaxPool", {"x": numbers([1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 3, 3, 0, 3, 3, 0], 1, 1, 4, 4)}, kernel_shape=[2, 2], strides=[1, 1])
op("maxpool_dilated", "MaxPool", {"x": reals(2, 2, 7, 6)}, kernel_shape=[2, 3], dilations=[2, 1], pads=[1, 1, 0, 1], strides=[2, 1], ceil_mode=1)
op("averagepool_pads", "AveragePool", {"x": reals(1, 2, 5, 6)}, kernel_shape=[3, 2], pads=[1, 0, 1, 1], strides=[2, 2], count_include_pad=1, ceil_mode=1)
op("lppool_3", "LpPool", {"x": reals(1, 2, 5, 5)}, kernel_shape=[2, 2], p=3)
op("conv_groups", "Conv", {"x": reals(2, 4, 5, 6), "w": reals(6, 2, 3, 2), "b": reals(6)}, group=2, dilations=[1, 2], strides=[2, 1], pads=[1, 0, 2, 1])
op("conv_depthwise", "Conv", {"x": reals(2, 3, 7), "w": reals(6, 1, 3)}, group=3, auto_pad="SAME_UPPER", strides=[2])
op("convtranspose_groups", "ConvTranspose", {"x": reals(2, 4, 3, 4), "w": reals(4, 3, 3, 2), "b": reals(6)}, group=2, strides=[2, 3], pads=[1, 0, 0, 1], dilations=[1, 2],
   output_padding=[1, 0])
op("convtranspose_same", "ConvTranspose", {"x": reals(1, 2, 5), "w": reals(2, 3, 4)}, auto_pad="SAME_LOWER", strides=[3])
op("col2im", "Col2Im", {"x": reals(1, 8, 4)}, constants={"size": integers([4, 4]), "block": integers([2, 2])}, strides=[2, 2], dilations=[1, 1], pads=[0, 0, 0, 0])
for mode in "nearest", "linear", "cubic":
    for where in "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric", "tf_crop_and_resize":
        for scales in (0.6, 1.7), (2.3, 0.5):
            if where == "tf_crop_and_resize":
                op("resize_%s_%s_%g" % (mode, where, scales[0]), "Resize", {"x": reals(1, 2, 5, 6)}, constants={
                    "roi": numbers([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1]),
                    "scales": (FLOAT, [4], [1, 1, *scales])
                }, mode=mode, coordinate_transformation_mode=where, extrapolation_value=0.3)
            else:
                op("resize_%s_%s_%g" % (mode, where, scales[0]), "Resize", {"x": reals(1, 2, 5, 6), "absent": None}, constants={"scales": (FLOAT, [4], [1, 1, *scales])},
                   mode=mode, coordinate_transformation_mode=where)
for mode in "linear", "cubic":
    op("resize_%s_antialias" % mode, "Resize", {"x": reals(1, 1, 7, 6), "absent": None}, constants={"scales": (FLOAT, [4], [1, 1, 0.45, 0.6])}, mode=mode, antialias=1)
op("resize_cubic_exclude", "Resize", {"x": reals(1, 1, 4, 4), "absent": None}, constants={"scales": (FLOAT, [4], [1, 1, 0.7, 2.2])}, mode="cubic", exclude_outside=1,
   cubic_coeff_a=-0.5)
for mode in "linear", "nearest", "cubic":
    for padding in "zeros", "border", "reflection":
        for corners in 0, 1:
            op("grid_sample_%s_%s_%d" % (mode, padding, corners), "GridSample", {"x": reals(1, 2, 4, 5), "grid": reals(1, 3, 4, 2, low=-1.4, high=1.4)}, mode=mode,
               padding_mode=padding, align_corners=corners)
op("grid_sample_3d", "GridSample", {"x": reals(1, 1, 3, 4, 3), "grid": reals(1, 2, 2, 2, 3, low=-1.2, high=1.2)}, mode="linear", padding_mode="border")

# ---- norms, softmax, attention ----
op("softmax_middle", "Softmax", {"x": reals(2, 3, 4, low=-3, high=3)}, axis=1)
op("logsoftmax_large", "LogSoftmax", {"x": numbers([800, 801, 799, -800, -799, -801], 2, 3)}, axis=1)
op("batchnorm_training", "BatchNormalization", {"x": reals(3, 2, 4), "g": reals(2), "b": reals(2), "m": reals(2), "v": reals(2, low=0.5, high=2)}, outputs=3, training_mode=1,
   momentum=0.7)
op("layernorm_three", "LayerNormalization", {"x": reals(2, 3, 4), "g": reals(3, 4), "b": reals(3, 4)}, outputs=3, axis=1)
op("groupnorm", "GroupNormalization", {"x": reals(2, 4, 3), "g": reals(4), "b": reals(4)}, num_groups=2)
op("instancenorm", "InstanceNormalization", {"x": reals(2, 3, 4), "g": reals(3), "b": reals(3)})
op("lrn", "LRN", {"x": reals(1, 5, 2, 2)}, size=3, alpha=0.3, beta=0.6, bias=1.2)
for what, mask in ("row", [1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 1, 1]), ("all", [0] * 12):
    op("attention_masked_" + what, "Attention", {"q": reals(1, 2, 3, 4), "k": reals(1, 2, 4, 4), "v": reals(1, 2, 4, 5), "mask": truths(mask, 3, 4)}, opset=23)
low = -40.0
op("attention_masked_by_numbers", "Attention", {"q": reals(1, 2, 3, 4), "k": reals(1, 2, 4, 4), "v": reals(1, 2, 4, 5)},
   constants={"mask": numbers([0, low, 0, 0.3, low, low, low, low, 0, 0, low, 1], 3, 4)}, opset=23)
inf = -float("inf")
op("attention_masked_by_infinity", "Attention", {"q": reals(1, 2, 3, 4), "k": reals(1, 2, 4, 4), "v": reals(1, 2, 4, 5)},
   constants={"mask": numbers([0, inf, 0, 0.3, inf, inf, inf, inf, 0, 0, inf, 1], 3, 4)}, opset=23)
op("attention_causal_softcap", "Attention", {"q": reals(1, 4, 3, 4), "k": reals(1, 2, 5, 4), "v": reals(1, 2, 5, 3)}, is_causal=1, softcap=1.5, opset=23)

# ---- recurrent ----
for kind, gates in ("RNN", 1), ("GRU", 3), ("LSTM", 4):
    h, x, batch, time = 3, 2, 2, 4
    for direction, n in ("forward", 1), ("reverse", 1), ("bidirectional", 2):
        inputs = {"x": reals(time, batch, x), "w": reals(n, gates * h, x), "r": reals(n, gates * h, h), "b": reals(n, 2 * gates * h), "n": (INT32, [batch], [4, 2]),
                  "h": reals(n, batch, h)}
        if kind == "LSTM": inputs.update(c=reals(n, batch, h), p=reals(n, 3 * h))
        more = {"linear_before_reset": 1} if kind == "GRU" and direction != "reverse" else {}
        op("%s_%s" % (kind.lower(), direction), kind, inputs, outputs=3 if kind == "LSTM" else 2, hidden_size=h, direction=direction, **more)

# ---- bodies ----
step = body([node("Mul", ["c", "w"], ["cw"]), node("Tanh", ["cw"], ["n"]), node("Add", ["n", "c"], ["next"]), node("Mul", ["next", "n"], ["row"]), node("Identity", ["going"], ["on"])],
            [value("i", INT64, []), value("going", BOOL, []), value("c", DOUBLE, [2, 3])], [value("on", BOOL, []), value("next", DOUBLE, [2, 3]), value("row", DOUBLE, [2, 3])])
for trips in 0, 1, 3, 40:
    write("loop_%d" % trips, [node("Loop", ["n", "yes", "x"], ["last"] + (["rows"] if trips else []), body=step)], {"x": reals(2, 3), "w": reals(3)},
          ["last"] + (["rows"] if trips else []), {"n": (INT64, [], [trips]), "yes": (BOOL, [], [True])})
until = body([node("Mul", ["c", "w"], ["cw"]), node("Exp", ["cw"], ["n"]), node("Add", ["n", "c"], ["next"]), node("ReduceSum", ["next"], ["sum"], keepdims=0), node("Less", ["sum", "end"], ["on"])],
             [value("i", INT64, []), value("going", BOOL, []), value("c", DOUBLE, [2, 3])], [value("on", BOOL, []), value("next", DOUBLE, [2, 3])])
for what, inputs, end in ("", ["", "yes", "x"], 40), ("_at_most_two", ["n", "yes", "x"], 40), ("_once", ["", "yes", "x"], -100):
    write("loop_until" + what, [node("Loop", inputs, ["last"], body=until)], {"x": reals(2, 3), "w": reals(3, low=0.2, high=0.6), **({"n": (INT64, [], [2])} if what == "_at_most_two" else {})},
          ["last"], {"end": (DOUBLE, [], [float(end)]), "yes": (BOOL, [], [True])})
scanned = body([node("MatMul", ["h", "w"], ["hw"]), node("Add", ["hw", "xt"], ["z"]), node("Tanh", ["z"], ["next"]), node("Mul", ["next", "next"], ["row"])],
               [value("h", DOUBLE, [2, 3]), value("xt", DOUBLE, [2, 3])], [value("next", DOUBLE, [2, 3]), value("row", DOUBLE, [2, 3])])
for reverse in 0, 1:
    write("scan_%d" % reverse, [node("Scan", ["h", "x"], ["last", "rows"], body=scanned, num_scan_inputs=1, scan_input_directions=[reverse], scan_output_directions=[1 - reverse])],
          {"h": reals(2, 3), "x": reals(5, 2, 3), "w": reals(3, 3)}, ["last", "rows"])
branch = lambda kind: body([node(kind, ["x"], ["b"])], [], [value("b", DOUBLE, [2, 3])])
write("if", [node("ReduceSum", ["x"], ["s"], keepdims=0), node("Less", ["s", "zero"], ["c"]), node("If", ["c"], ["y"], then_branch=branch("Sin"), else_branch=branch("Exp"))], {"x": reals(2, 3)},
      ["y"], {"zero": (DOUBLE, [], [0.0])})
