"""Writes and reads safetensors, npy and npz with the standard library alone, for tests.

A tensor is (dtype, shape, numbers): ("F32", [2, 3], [0.5] * 6).
"""
import io, json, struct, sys, zipfile

CODES = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U8": "B", "U16": "H", "U32": "I", "U64": "Q", "BOOL": "?"}
NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "|i1", "U8": "|u1", "U16": "<u2", "U32": "<u4",
         "U64": "<u8", "BOOL": "|b1"}


def product(shape):
    n = 1
    for d in shape: n *= d
    return n


def pack(dtype, numbers):
    return struct.pack("<%d%s" % (len(numbers), CODES[dtype]), *numbers)


def safetensors(path, tensors, metadata=None):
    header, data = {}, b""
    if metadata: header["__metadata__"] = metadata
    for name, (dtype, shape, numbers) in tensors.items():
        raw = pack(dtype, numbers)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f: f.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    """name -> (dtype, shape, bytes), and the metadata"""
    with open(path, "rb") as f: raw = f.read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    metadata = header.pop("__metadata__", {})
    return {k: (v["dtype"], v["shape"], raw[8 + n + v["data_offsets"][0]:8 + n + v["data_offsets"][1]]) for k, v in header.items()}, metadata


def numbers(tensor):
    dtype, _, raw = tensor
    return struct.unpack("<%d%s" % (len(raw) // struct.calcsize(CODES[dtype]), CODES[dtype]), raw)


def npy(dtype, shape, values, order=False):
    text = "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }" % (NUMPY[dtype], order, "".join("%d, " % d for d in shape))
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + pack(dtype, values)


def npz(path, tensors, how=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", how) as z:
        for name, (dtype, shape, values) in tensors.items(): z.writestr(name + ".npy", npy(dtype, shape, values))


class Random:
    """splitmix64: the same numbers everywhere"""

    def __init__(self, seed): self.state = seed

    def next(self):
        m = (1 << 64) - 1
        self.state = (self.state + 0x9e3779b97f4a7c15) & m
        z = self.state
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & m
        z = (z ^ z >> 27) * 0x94d049bb133111eb & m
        return z ^ z >> 31

    def below(self, n): return self.next() % n

    def reals(self, n): return [self.below(2000) / 1000 - 1 for _ in range(n)]

    def ints(self, n, limit): return [self.below(limit) for _ in range(n)]
