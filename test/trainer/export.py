"""Models for export.sh, and what exported ones must be: python3 test/trainer/export.py make FOLDER | untouched A B | weights MODEL FILE [NAME=OF[:FIRST:STRIDE:STRIDE]…]

Tensors of a file are read by the wire format alone, from the model or from the file beside it.
"""
import os, struct, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
import checks, onnx_writer as o, tensors as t


# ---- reading ----
def varint(b, at):
    n = shift = 0
    while True:
        n |= (b[at] & 127) << shift
        shift += 7
        at += 1
        if b[at - 1] < 128: return n, at


def fields(b):
    """(number, value, the field's bytes): value an int or bytes"""
    at = 0
    while at < len(b):
        start = at
        key, at = varint(b, at)
        if key & 7 == 0:
            value, at = varint(b, at)
        elif key & 7 == 2:
            n, at = varint(b, at)
            value, at = b[at:at + n], at + n
        else:
            value, at = b[at:at + (8 if key & 7 == 1 else 4)], at + (8 if key & 7 == 1 else 4)
        yield key >> 3, value, b[start:at]


def every(b, number): return [v for n, v, _ in fields(b) if n == number]
def first(b, number, absent=b""): return (every(b, number) or [absent])[0]


def read_tensor(b, folder):
    """(type, dims, bytes)"""
    if first(b, 14, 0) == 1:
        place = {first(e, 1): first(e, 2).decode() for e in every(b, 13)}
        with open(os.path.join(folder, place[b"location"]), "rb") as f:
            f.seek(int(place.get(b"offset", 0)))
            data = f.read(int(place[b"length"]))
    else:
        data = first(b, 9)
    return first(b, 2), every(b, 1), data


def read(path):
    """The model's bytes without its graph; the nodes, Constants aside; the names and tensors of initializers and Constants."""
    with open(path, "rb") as f: model = f.read()
    g, folder = first(model, 7), os.path.dirname(path)
    found = {first(i, 8).decode(): read_tensor(i, folder) for i in every(g, 5)}
    nodes = []
    for n in every(g, 1):
        if first(n, 4) == b"Constant": found[first(n, 2).decode()] = read_tensor(first(first(n, 5), 5), folder)
        else: nodes.append((first(n, 4).decode(), [i.decode() for i in every(n, 1)], [i.decode() for i in every(n, 2)], every(n, 5)))
    rest = sorted(whole for n, _, whole in fields(model) if n != 7) + sorted(whole for n, _, whole in fields(g) if n not in (1, 5))
    return rest, nodes, found


# ---- models ----
WIDTH, HIDDEN = 20, 32


def matrix(random, name, dims, dtype=o.FLOAT): return o.tensor(name, dtype, dims, random.reals(dims[0] * dims[1]))


def external(name, dims, location, offset):
    entry = lambda k, v: o.part(13, o.part(1, k) + o.part(2, v))
    n = 4 * dims[0] * dims[1]
    return (b"".join(o.number(1, d) for d in dims) + o.number(2, o.FLOAT) + o.part(8, name) + entry("location", location) +
            entry("offset", str(offset)) + entry("length", str(n)) + o.number(14, 1))


def make(folder):
    """kinds.onnx: norms that share gain and bias, a weight in a Constant, one in another file, a head tied to the first matrix, columns of another as a tensor beside it, a softmax at the end"""
    random = t.Random(5)
    first_matrix = random.reals(WIDTH * HIDDEN)
    turned = [first_matrix[i * HIDDEN + j] for j in range(HIDDEN) for i in range(WIDTH)]
    inner = random.reals(HIDDEN * HIDDEN)
    columns = [inner[i * HIDDEN + 4 + j] for i in range(HIDDEN) for j in range(WIDTH)]
    with open(folder + "/kinds.bin", "wb") as f: f.write(bytes(64) + t.pack("F32", random.reals(HIDDEN * HIDDEN)))
    nodes = [o.node("MatMul", ["x", "embedding"], ["a"], "in"), o.node("LayerNormalization", ["a", "ones", "zeros"], ["b"], "norm_1"),
             o.node("Constant", [], ["inner"], value=("", o.FLOAT, [HIDDEN, HIDDEN], inner)),
             o.node("MatMul", ["b", "inner"], ["c"], "middle_1"), o.node("Relu", ["c"], ["d"]), o.node("MatMul", ["d", "beside"], ["e"], "middle_2"),
             o.node("LayerNormalization", ["e", "ones", "zeros"], ["f"], "norm_2"), o.node("MatMul", ["f", "head"], ["g"], "out"),
             o.node("MatMul", ["b", "slice_1"], ["beside_g"], "columns"), o.node("Add", ["g", "beside_g"], ["sum"]),
             o.node("Mul", ["sum", "half"], ["h"]), o.node("Softmax", ["h"], ["y"], axis=1)]
    initializers = [o.tensor("embedding", o.FLOAT, [WIDTH, HIDDEN], first_matrix), o.tensor("ones", o.FLOAT, [HIDDEN], [1.0] * HIDDEN),
                    o.tensor("zeros", o.FLOAT, [HIDDEN], [0.0] * HIDDEN), external("beside", [HIDDEN, HIDDEN], "kinds.bin", 64),
                    o.tensor("head", o.FLOAT, [HIDDEN, WIDTH], turned), o.tensor("slice_1", o.FLOAT, [HIDDEN, WIDTH], columns),
                    o.tensor("half", o.FLOAT, [], [0.5])]
    o.model(folder + "/kinds.onnx", o.graph(nodes, [o.value("x", o.FLOAT, ["batch", WIDTH])], [o.value("y", o.FLOAT, ["batch", WIDTH])], initializers))

    nodes = [o.node("MatMul", ["x", "w"], ["a"], "in"), o.node("Add", ["a", "b"], ["c"]), o.node("Tanh", ["c"], ["d"]), o.node("MatMul", ["d", "v"], ["y"], "out")]
    for name, dtype, kind in ("half", o.FLOAT16, "F16"), ("double", o.DOUBLE, "F64"):
        initializers = [matrix(random, "w", [WIDTH, HIDDEN], dtype), o.tensor("b", dtype, [HIDDEN], random.reals(HIDDEN)), matrix(random, "v", [HIDDEN, WIDTH], dtype)]
        o.model("%s/%s.onnx" % (folder, name), o.graph(nodes, [o.value("x", dtype, ["batch", WIDTH])], [o.value("y", dtype, ["batch", WIDTH])], initializers))
    batches = [{"x": ("F32", [n, WIDTH], random.reals(WIDTH * n)), "target": ("I64", [n], random.ints(n, WIDTH))} for n in (4, 7)]
    checks.stream(folder + "/batches.safetensors", *batches)

    # norms by the batch and noise, as exported for training
    nodes = [o.node("MatMul", ["x", "w"], ["a"], "in"),
             o.node("BatchNormalization", ["a", "gain", "shift", "mean", "variance"], ["b", "new_mean", "new_variance"], training_mode=1),
             o.node("Dropout", ["b", "share", "yes"], ["c"]), o.node("MatMul", ["c", "v"], ["y"], "out")]
    initializers = [matrix(random, "w", [WIDTH, HIDDEN]), matrix(random, "v", [HIDDEN, WIDTH]), o.tensor("gain", o.FLOAT, [HIDDEN], random.reals(HIDDEN)),
                    o.tensor("shift", o.FLOAT, [HIDDEN], random.reals(HIDDEN)), o.tensor("mean", o.FLOAT, [HIDDEN], random.reals(HIDDEN)),
                    o.tensor("variance", o.FLOAT, [HIDDEN], [1.0 + i / 50 for i in range(HIDDEN)]), o.tensor("share", o.FLOAT, [], [0.25]),
                    o.tensor("yes", o.BOOL, [], [True])]
    o.model(folder + "/noisy.onnx", o.graph(nodes, [o.value("x", o.FLOAT, ["batch", WIDTH])], [o.value("y", o.FLOAT, ["batch", WIDTH])], initializers))

    # a sparse matrix, in a file of IR 3, where initializers are inputs too
    held = random.reals(40)
    sparse = (o.part(1, o.tensor("w", o.FLOAT, [40], held)) + o.part(2, o.tensor("", o.INT64, [40], list(range(0, 640, 16)))) +
              o.number(3, WIDTH) + o.number(3, HIDDEN))
    nodes = [o.node("MatMul", ["x", "w"], ["a"], "in"), o.node("LayerNormalization", ["a", "ones", "zeros"], ["b"], "norm_1"),
             o.node("MatMul", ["b", "v"], ["c"], "middle"), o.node("LayerNormalization", ["c", "ones", "zeros"], ["y"], "norm_2")]
    initializers = [matrix(random, "v", [HIDDEN, HIDDEN]), o.tensor("ones", o.FLOAT, [HIDDEN], [1.0] * HIDDEN), o.tensor("zeros", o.FLOAT, [HIDDEN], [0.0] * HIDDEN)]
    inputs = [o.value("x", o.FLOAT, ["batch", WIDTH])] + [o.value(n, o.FLOAT, [HIDDEN]) for n in ("ones", "zeros")] + [o.value("v", o.FLOAT, [HIDDEN, HIDDEN])]
    o.model(folder + "/sparse.onnx", o.graph(nodes, inputs, [o.value("y", o.FLOAT, ["batch", HIDDEN])], initializers) + o.part(15, sparse))
    with open(folder + "/sparse.onnx", "r+b") as f: f.write(o.number(1, 3))

    # a function called twice: its nodes cannot each read a gain of their own
    f = (o.part(1, "Two") + o.parts(4, ["x", "g", "z"]) + o.parts(5, ["y"]) + o.part(10, "own") + o.part(9, o.number(2, 18)) +
         o.parts(7, [o.node("LayerNormalization", ["x", "g", "z"], ["a"]), o.node("Relu", ["a"], ["r"]), o.node("LayerNormalization", ["r", "g", "z"], ["y"])]))
    g = o.graph([o.node("MatMul", ["x", "w"], ["a"]), o.node("Two", ["a", "ones", "zeros"], ["y"], "call", "own")], [o.value("x", o.FLOAT, ["batch", WIDTH])],
                [o.value("y", o.FLOAT, ["batch", HIDDEN])],
                [matrix(random, "w", [WIDTH, HIDDEN]), o.tensor("ones", o.FLOAT, [HIDDEN], [1.0] * HIDDEN), o.tensor("zeros", o.FLOAT, [HIDDEN], [0.0] * HIDDEN)])
    o.model(folder + "/function.onnx", g, domains=("own",))
    with open(folder + "/function.onnx", "ab") as out: out.write(o.part(25, f))


# ---- judging ----
def untouched(was, now):
    """All as it came: bytes of tensors too; separated ones are those that they come from."""
    before, after = read(was), read(now)
    if before[0] != after[0]: checks.fail("more than nodes and tensors has changed")
    plain = lambda nodes: [(op, [i.split("#")[0] for i in inputs], outputs, attributes) for op, inputs, outputs, attributes in nodes]
    if plain(before[1]) != plain(after[1]): checks.fail("nodes have changed")
    for name, tensor in before[2].items():
        if after[2].get(name) != tensor: checks.fail("\"%s\" has changed" % name)
    for name, tensor in after[2].items():
        if before[2].get(name.split("#")[0]) != tensor: checks.fail("\"%s\" is not what it comes from" % name)


CODES = {o.FLOAT: "F32", o.FLOAT16: "F16", o.DOUBLE: "F64"}


def weights(path, file, ties):
    """Every weight of the file stands in the model, as it is there; of a tie, transposed, or the part that FIRST and a STRIDE a dim say."""
    _, nodes, found = read(path)
    read_by_nodes = {i for _, inputs, _, _ in nodes for i in inputs}
    for name, saved in t.read(file)[0].items():
        if name not in found or name not in read_by_nodes:
            checks.fail("\"%s\" is not in the model" % name)
            continue
        dtype, dims, data = found[name]
        wanted = t.pack(CODES[dtype], t.numbers(saved))
        if dims != saved[1] or data != wanted: checks.fail("\"%s\" is not as it was saved" % name)
    for tie in ties:
        name, of = tie.split("=")
        of, *place = of.split(":")
        have, source = t.numbers((CODES[found[name][0]], None, found[name][2])), t.numbers((CODES[found[of][0]], None, found[of][2]))
        rows, columns = found[of][1]
        first, down, along = map(int, place or (0, 1, columns))
        wanted = [source[first + i * down + j * along] for i in range(found[name][1][0]) for j in range(found[name][1][1])]
        if list(have) != wanted: checks.fail("\"%s\" is not \"%s\", transposed or a part" % (name, of))


if __name__ == "__main__":
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "make": make(*arguments)
    elif what == "untouched": untouched(*arguments)
    else: weights(arguments[0], arguments[1], arguments[2:])
    checks.finish()
