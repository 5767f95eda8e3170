"""Integers that a program takes for numbers of rows or of classes, out of range in every way: such a batch is set aside before a weight
changes, and one that is right trains to the loss that plain Python finds.

  ranges.py write FOLDER                       labels.onnx, a model that computes its losses itself; rows.onnx, rows picked in many ways;
                                               next.onnx, whose table has more rows than there are scores
  ranges.py labels|rows TRAINER FOLDER         batches with one thing wrong each
"""
import math, os, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checks, tensors as t
from checks import fail
from onnx_writer import *

CLASSES, LONG, COUNTED = 5, 60, 5000
r = t.Random(21)
W = [v / 2 for v in r.reals(4 * CLASSES)]
WEIGHTS = [0.5, 1.0, 0.25, 2.0, 1.5]
TABLE, LARGE, MAP = r.reals(8), r.reals(200), [7, 0, 3]


# ---- models ----
def vector(name, kind, values): return tensor(name, kind, [len(values)], values)


def labels_model():
    nodes, losses = [node("MatMul", ["x", "fc.weight"], ["scores"], "/fc"), node("LogSoftmax", ["scores"], ["log_p"], "/log_p", axis=1)], []
    inputs, given = [value("x", FLOAT, ["batch", 4])], [tensor("fc.weight", FLOAT, [4, CLASSES], W), vector("weights", FLOAT, WEIGHTS)]

    def labels(name, kind=INT64, dims=("batch",)):
        inputs.append(value(name, kind, list(dims)))
        return name

    def loss(name, labels, op="SoftmaxCrossEntropyLoss", source="scores", more=(), **attributes):
        nodes.append(node(op, [source, labels, *more], [name], "/" + name, **attributes))
        losses.append(name)
    loss("plain_loss", labels("plain"))
    loss("ignoring_loss", labels("ignoring", INT32), ignore_index=-100)
    nodes.append(node("Cast", [labels("made", FLOAT)], ["made_labels"], "/made", to=INT64))
    loss("made_loss", "made_labels", "NegativeLogLikelihoodLoss", "log_p", ignore_index=-1)
    loss("weighed_loss", labels("weighed"), more=["weights"], ignore_index=7)
    labels("twice")
    loss("first_loss", "twice", ignore_index=-1)
    loss("second_loss", "twice", ignore_index=-2)
    nodes.append(node("Gather", ["weights", labels("picking")], ["picked"], "/picked"))
    nodes.append(node("ReduceMean", ["picked"], ["picked_loss"], "/picked_mean", keepdims=0))
    losses.append("picked_loss")
    loss("picking_loss", "picking", ignore_index=-100)
    given += [vector("one", INT64, [1]), vector("end", INT64, [1 << 40])]
    nodes.append(node("Slice", [labels("later", dims=("more",)), "one", "end"], ["shifted"], "/shifted"))
    loss("later_loss", "shifted")
    nodes.append(node("Sum", losses, ["loss"], "/sum"))
    return graph(nodes, inputs, [value("loss", FLOAT, [])], given)


def rows_model():
    """y: a mean for each way of picking."""
    nodes, inputs, means = [], [], []
    given = [tensor("table", FLOAT, [8], TABLE), tensor("large", FLOAT, [200], LARGE), tensor("scale", FLOAT, [1, 1], [1.0]),
             tensor("zero", INT64, [], [0]), tensor("hundred", INT64, [], [100]), vector("flat", INT64, [-1]), vector("counted", INT64, [k % LONG for k in range(COUNTED)]),
             vector("nine", FLOAT, [9.0])]

    def add(op, operands, result, **attributes):
        nodes.append(node(op, operands, [result], "/" + result, **attributes))
        return result

    def ids(name, kind=INT64):
        inputs.append(value(name, kind, [name + "_n"]))
        return name

    def mean(name, values, index):
        means.append(add("Reshape", [add("ReduceMean", [add("Gather", [values, index], name)], name + "_mean", keepdims=0), "flat"], name + "_part"))
    mean("usual", "table", ids("plain"))
    mean("shifted", "table", add("Where", [add("Less", [ids("shift"), "zero"], "negative"), add("Add", ["shift", "hundred"], "far"), "shift"], "shifted_ids"))
    mean("short", "large", add("Cast", [add("Cast", [ids("narrow")], "bytes", to=UINT8)], "short_ids", to=INT64))
    inputs.append(value("made", FLOAT, ["made_n"]))
    given.append(vector("map", INT64, MAP))
    mean("mapped", "table", add("Gather", ["map", add("Cast", ["made"], "made_ids", to=INT64)], "map_ids"))
    inputs += [value("x", FLOAT, ["time"]), value("flag", BOOL, ["time"])]
    mean("long", "x", "counted")
    mean("constant", "x", add("Cast", ["nine"], "nine_ids", to=INT64))
    add("Gather", ["x", add("Reshape", [add("NonZero", ["flag"], "places"), "flat"], "rows")], "some")
    mean("late", "some", ids("of_some"))
    add("MatMul", [add("Reshape", [add("Concat", means, "means", axis=0), "column"], "column_of"), "scale"], "product")
    add("Reshape", ["product", "flat"], "y")
    given.append(vector("column", INT64, [len(means), 1]))
    return graph(nodes, inputs, [value("y", FLOAT, [len(means)])], given)


def next_model():
    return graph([node("Gather", ["table", "ids"], ["e"], "/table"), node("MatMul", ["e", "fc.weight"], ["logits"], "/fc")], [value("ids", INT64, ["batch", "seq"])],
                 [value("logits", FLOAT, ["batch", "seq", 7])], [tensor("table", FLOAT, [11, 2], r.reals(22)), tensor("fc.weight", FLOAT, [2, 7], r.reals(14))])


def write(folder):
    for name, make in ("labels", labels_model), ("rows", rows_model), ("next", next_model): model("%s/%s.onnx" % (folder, name), make(), 18)


# ---- truth ----
def cross_entropy(x, labels, ignore=None, weights=None):
    total = count = 0.0
    for row, label in enumerate(labels):
        if label == ignore: continue
        scores = [sum(x[4 * row + i] * W[i * CLASSES + c] for i in range(4)) for c in range(CLASSES)]
        w = weights[label] if weights else 1.0
        total += w * (math.log(sum(map(math.exp, scores))) - scores[label])
        count += w
    return total / count


def labels_loss(x, plain, ignoring, made, weighed, twice, picking, later):
    return (cross_entropy(x, plain) + cross_entropy(x, ignoring, -100) + cross_entropy(x, made, -1) + cross_entropy(x, weighed, 7, WEIGHTS) +
            2 * cross_entropy(x, twice) + sum(WEIGHTS[k] for k in picking) / len(picking) + cross_entropy(x, picking, -100) + cross_entropy(x, later[1:]))


def rows_loss(x, flag, plain, shift, narrow, made, of_some, target):
    some = [v for v, f in zip(x, flag) if f]
    y = [[TABLE[k] for k in plain], [TABLE[(k + 100 if k < 0 else k)] for k in shift], [LARGE[k % 256] for k in narrow], [TABLE[MAP[k]] for k in made],
         [x[k % LONG] for k in range(COUNTED)], [x[9]], [some[k] for k in of_some]]
    return sum((sum(v) / len(v) - t) ** 2 for v, t in zip(y, target)) / len(y)


# ---- batches ----
def labels_batch(**other):
    b = {"x": ("F32", [4, 4], r.reals(16)), "plain": ("I64", [4], [0, 1, 4, 2]), "ignoring": ("I32", [4], [-100, 3, 4, -100]), "made": ("F32", [4], [0.0, -1.0, 4.0, 3.5]),
         "weighed": ("I64", [4], [7, 0, 4, 3]), "twice": ("I64", [4], [1, 1, 0, 4]), "picking": ("I64", [4], [0, 4, 3, 3]), "later": ("I64", [5], [99, 0, 1, 4, 4])}
    return dict(b, **{n: (b[n][0], [len(v)], v) for n, v in other.items()})


def rows_batch(time=LONG + 4, **other):
    flag = [k % 3 == 0 for k in range(time)]
    b = {"x": ("F32", [time], r.reals(time)), "flag": ("BOOL", [time], flag), "plain": ("I64", [3], [0, 7, -8]), "shift": ("I64", [2], [-93, 7]), "narrow": ("I64", [3], [199, 0, 256]),
         "made": ("F32", [2], [2.5, -3.0]), "of_some": ("I64", [3], [0, sum(flag) - 1, -1]), "target": ("F32", [7], r.reals(7))}
    return dict(b, **{n: (b[n][0], [len(v)], v) for n, v in other.items()})


RIGHT = {"labels": [labels_batch(), labels_batch(ignoring=[-100, -100, -100, 0], weighed=[7, 7, 7, 2]), labels_batch(later=[-5, 4, 3, 2, 1])],
         "rows": [rows_batch(), rows_batch(shift=[-100, 3], narrow=[-57, 10, 455]), rows_batch(LONG)]}
WRONG = {
    "labels": [("plain_in_row", labels_batch(plain=[0, 1, 5, 2])), ("plain_in_row", labels_batch(plain=[0, -1, 4, 2])), ("plain_in_row", labels_batch(plain=[-100, 1, 4, 2])),
               ("ignoring_in_row", labels_batch(ignoring=[-100, 5, 0, 0])), ("ignoring_in_row", labels_batch(ignoring=[-1, 0, 0, 0])),
               ("finite_loss", labels_batch(made=[0.0, -2.0, 0.0, 0.0])), ("finite_loss", labels_batch(made=[5.0, 0.0, -1.0, 0.0])), ("finite_loss", labels_batch(made=[-1.0] * 4)),
               ("weighed_in_row", labels_batch(weighed=[7, 5, 0, 0])), ("finite_loss", labels_batch(twice=[-1, 0, 0, 0])), ("twice_in_row", labels_batch(twice=[0, 0, 5, 0])),
               ("twice_in_row", labels_batch(twice=[0, -2, 0, 0])), ("picking_in_table", labels_batch(picking=[0, -100, 0, 0])),
               ("picking_in_row", labels_batch(picking=[0, -1, 0, 0])), ("finite_loss", labels_batch(later=[0, 0, 0, 5, 0]))],
    "rows": [("plain_in_table", rows_batch(plain=[8])), ("plain_in_table", rows_batch(plain=[-9])), ("finite_loss", rows_batch(shift=[-3])), ("finite_loss", rows_batch(shift=[8])),
             ("finite_loss", rows_batch(narrow=[-1])), ("finite_loss", rows_batch(narrow=[200])), ("finite_loss", rows_batch(made=[0.0, 3.0])), ("finite_loss", rows_batch(made=[-4.0])),
             ("finite_loss", rows_batch(LONG - 1, of_some=[0])),
             ("slice_inside", rows_batch(9, of_some=[0])), ("finite_loss", rows_batch(of_some=[22])), ("finite_loss", rows_batch(of_some=[-23]))]}


def check(kind, trainer, folder):
    truth = {"labels": labels_loss, "rows": rows_loss}[kind]
    right, wrong = RIGHT[kind], WRONG[kind]
    log, weights = folder + "/log", [folder + "/clean.weights", folder + "/weights"]

    def run(batches, saved):
        checks.stream(folder + "/stream", *batches)
        done = subprocess.run([trainer, "--batch-file", folder + "/stream", "--steps", str(len(batches)), "--lr", "1e-6", "--progress", "never", "--max-skipped", "100%",
                               "--variants", "off", "--log", log, "--save-weights", saved], capture_output=True, text=True, timeout=300)
        if done.returncode: fail("%s: status %d: %s" % (kind, done.returncode, done.stderr[-2000:]))
        lines = checks.lines(log)
        return checks.losses(lines), {x["step"]: x["guard"] for x in checks.events(lines, "set_aside")}
    losses, aside = run(right, weights[0])
    if aside: fail("%s: set aside though right: %s" % (kind, aside))
    for k, (batch, loss) in enumerate(zip(right, losses)):
        numbers = {n: [int(x) if n == "made" else x for x in v] for n, (_, _, v) in batch.items()}
        if abs(loss - truth(**numbers)) > 1e-4 * max(1, abs(loss)): fail("%s: batch %d: loss %g, by hand %g" % (kind, k, loss, truth(**numbers)))
    mixed, expected = [], {}
    for k, (guard, batch) in enumerate(wrong):
        expected[len(mixed)] = guard
        mixed.append(batch)
    found, aside = run(mixed + right, weights[1])
    for k in sorted(expected.keys() | aside.keys()):
        if aside.get(k) != expected.get(k): fail("%s: batch %d: set aside for %s, wanted %s: %s" % (kind, k, aside.get(k), expected.get(k), wrong[k][1] if k < len(wrong) else "right"))
    if found != losses: fail("%s: losses %s, without those batches %s" % (kind, found, losses))
    if open(weights[0], "rb").read() != open(weights[1], "rb").read(): fail(kind + ": batches that were set aside changed weights")


if __name__ == "__main__":
    write(sys.argv[2]) if sys.argv[1] == "write" else check(*sys.argv[1:])
    checks.finish()
