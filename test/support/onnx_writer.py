"""Writes small ONNX files with the standard library alone, right or wrong ones: nothing is checked.

    graph([node("Relu", ["x"], ["y"])], inputs=[value("x", FLOAT, ["batch", 4])], outputs=[value("y", FLOAT, ["batch", 4])])
"""
import struct

FLOAT, UINT8, INT8, INT32, INT64, STRING, BOOL, FLOAT16, DOUBLE = 1, 2, 3, 6, 7, 8, 9, 10, 11


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while True:
        out += bytes([n & 127 | (128 if n > 127 else 0)])
        n >>= 7
        if not n: return out


def number(field, n): return varint(field << 3) + varint(n)


def part(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


def parts(field, items): return b"".join(part(field, i) for i in items)


def tensor(name, dtype, dims, values):
    code = {FLOAT: "f", INT64: "q", INT32: "i", DOUBLE: "d", BOOL: "?", UINT8: "B", FLOAT16: "e"}[dtype]
    return b"".join(number(1, d) for d in dims) + number(2, dtype) + part(8, name) + part(9, struct.pack("<%d%s" % (len(values), code), *values))


def value(name, dtype, dims):
    """dims: numbers, names, or None"""
    shape = b"".join(part(1, b"" if d is None else number(1, d) if isinstance(d, int) else part(2, d)) for d in dims)
    return part(1, name) + part(2, part(1, number(1, dtype) + part(2, shape)))


def attribute(name, v):
    if isinstance(v, bytes) and v[:1] == b"\0": return part(1, name) + part(6, v[1:]) + number(20, 5)  # a graph, as body() marks it
    if isinstance(v, (str, bytes)): return part(1, name) + part(4, v) + number(20, 3)
    if isinstance(v, float): return part(1, name) + varint(2 << 3 | 5) + struct.pack("<f", v) + number(20, 1)
    if isinstance(v, int): return part(1, name) + number(3, v) + number(20, 2)
    if isinstance(v, tuple): return part(1, name) + part(5, tensor(*v)) + number(20, 4)
    return part(1, name) + b"".join(number(8, i) for i in v) + number(20, 7)


def node(op, inputs, outputs, name="", domain="", **attributes):
    return (parts(1, inputs) + parts(2, outputs) + part(3, name or "/" + op.lower()) + part(4, op) + (part(7, domain) if domain else b"") +
            parts(5, [attribute(k, v) for k, v in attributes.items()]))


def graph(nodes, inputs, outputs, initializers=(), name="main"):
    return parts(1, nodes) + part(2, name) + parts(5, initializers) + parts(11, inputs) + parts(12, outputs)


def body(*arguments, **more): return b"\0" + graph(*arguments, **more)


def model(path, g, opset=18, domains=()):
    opsets = part(8, number(2, opset)) + b"".join(part(8, part(1, d) + number(2, 1)) for d in domains)
    with open(path, "wb") as f: f.write(number(1, 8) + part(2, "test") + opsets + part(7, g))
