"""Data files for models/tracks.onnx and models/letters.onnx, good and bad, for data.sh.  data.py FOLDER"""
import os, struct, sys, zipfile
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

folder = sys.argv[1]
r = t.Random(1)


def path(name): return os.path.join(folder, name)


def tracks(samples, time=5, features=6, dtype="F32"): return (dtype, [samples, time, features], r.reals(samples * time * features))


def pair(samples, **more): return {"trajectory": tracks(samples, **more), "target": tracks(samples, **more)}


good = pair(8)
t.safetensors(path("good.safetensors"), good)
t.npz(path("good.npz"), good)
t.npz(path("deflated.npz"), good, zipfile.ZIP_DEFLATED)
t.npz(path("doubles.npz"), {k: ("F64", s, v) for k, (d, s, v) in good.items()})
t.safetensors(path("halves.safetensors"), {k: ("F16", s, v) for k, (d, s, v) in good.items()})
for name, (dtype, shape, values) in good.items():
    with open(path(name + ".npy"), "wb") as f: f.write(t.npy(dtype, shape, values))
t.safetensors(path("labels.safetensors"), {"trajectory": good["trajectory"], "labels": good["target"]})

# a whole file that no batch could be taken from
t.safetensors(path("no_target.safetensors"), {"trajectory": good["trajectory"], "tarjet": good["target"]})
t.safetensors(path("no_input.safetensors"), {"x": good["trajectory"], "y": good["target"]})
t.safetensors(path("rank.safetensors"), dict(good, trajectory=("F32", [8, 30], good["trajectory"][2])))
t.safetensors(path("integers.safetensors"), dict(good, trajectory=("I64", [8, 5, 6], r.ints(240, 9))))
t.safetensors(path("bools.safetensors"), dict(good, trajectory=("BOOL", [8, 5, 6], [True] * 240)))
t.safetensors(path("features.safetensors"), pair(8, features=7))
t.safetensors(path("samples.safetensors"), dict(good, target=tracks(7)))
t.safetensors(path("no_samples.safetensors"), pair(0))
t.npz(path("no_samples.npz"), pair(0))
t.safetensors(path("no_elements.safetensors"), {k: ("F32", [1 << 40, 0, 6], []) for k in good})

# damaged files
raw = open(path("good.safetensors"), "rb").read()
n = struct.unpack("<Q", raw[:8])[0]
damaged = {
    "empty": b"", "text": b"trajectory,target\n1,2\n", "short": raw[:-10], "header_only": raw[:8 + n], "header_cut": raw[:40],
    "header_huge": struct.pack("<Q", 1 << 60) + raw[8:], "header_no_json": raw[:8] + b"[" * n + raw[8 + n:], "longer": raw + b"\0" * 16,
    "overlap": raw.replace(b"[960, 1920]", b"[950, 1910]"), "shape": raw.replace(b"[8, 5, 6]", b"[8, 5, 7]", 1),
    "negative": raw.replace(b"[8, 5, 6]", b"[-8,5,6]", 1), "dtype": raw.replace(b'"F32"', b'"F99"', 1),
}
for name, metadata in ("metadata_list", b'{"__metadata__":["a","b"],'), ("metadata_twice", b'{"__metadata__":{"a":"b"},"__metadata__":{"a":"b","c":"d"},'):
    header = metadata + raw[9:8 + n]
    damaged[name] = struct.pack("<Q", len(header)) + header + raw[8 + n:]
for name, data in damaged.items():
    with open(path(name + ".safetensors"), "wb") as f: f.write(data)
zipped = open(path("good.npz"), "rb").read()
for name, data in {"cut": zipped[:500], "crc": zipped.replace(t.pack("F32", good["target"][2][:4]), b"\1" * 16)}.items():
    with open(path(name + ".npz"), "wb") as f: f.write(data)
with zipfile.ZipFile(path("pickle.npz"), "w") as z:
    z.writestr("trajectory.npy", t.npy("F32", [8, 5, 6], good["trajectory"][2]))
    z.writestr("target.npy", t.npy("F32", [1], [0.0]).replace(b"'<f4'", b"'|O4'"))
whole = open(path("target.npy"), "rb").read()
for name, shape in ("npy_negative", b"(-8,5, 6, )"), ("npy_real", b"(8.0,30, )"), ("npy_open", b"(8, 5, 6,  "):
    with open(path(name + ".npy"), "wb") as f: f.write(whole.replace(b"(8, 5, 6, )", shape))
with open(path("cut.npy"), "wb") as f: f.write(open(path("target.npy"), "rb").read()[:-4])

# batches, one of them wrong
def batches(name, *pairs): t.safetensors(path(name), {"step%d.%s" % (k, n): v for k, p in enumerate(pairs) for n, v in p.items()})


def with_nan(p, where):
    dtype, shape, values = p[where]
    return dict(p, **{where: (dtype, shape, values[:7] + [float("nan")] + values[8:])})


batches("batches.safetensors", pair(2), pair(3, time=4), pair(2, time=9))
batches("gap.safetensors", pair(2), {"trajectory": tracks(2)}, pair(2))
batches("rank_all.safetensors", dict(pair(2), target=("F32", [12], r.reals(12))), dict(pair(2), target=("F32", [6], r.reals(6))))
batches("none.safetensors")
batches("fixed.safetensors", pair(2), pair(2, features=5), pair(2))
batches("equal.safetensors", pair(2), {"trajectory": tracks(3), "target": tracks(2)}, pair(2))
batches("target_shape.safetensors", pair(2), {"trajectory": tracks(2, time=5), "target": tracks(2, time=1)}, pair(2))
batches("rank_one.safetensors", pair(2), {"trajectory": tracks(2), "target": ("F32", [2, 6], r.reals(12))}, pair(2))
batches("nan_input.safetensors", pair(2), with_nan(pair(2), "trajectory"), pair(2))
batches("nan_target.safetensors", pair(2), with_nan(pair(2), "target"), pair(2))
batches("no_rows.safetensors", pair(2), pair(0), pair(2))
batches("no_time.safetensors", pair(2), pair(2, time=0), pair(2))


def letters(batch, seq, worst=None, dtype="I64"):
    ids = r.ints(batch * seq, 128)
    if worst is not None: ids[batch * seq // 2] = worst
    return {"input_ids": (dtype, [batch, seq], ids)}


batches("letters.safetensors", letters(2, 7), letters(3, 5))
batches("letters_i32.safetensors", letters(2, 7, dtype="I32"), letters(3, 5, dtype="I32"))
batches("letters_floats.safetensors", {"input_ids": ("F32", [2, 7], r.reals(14))})
batches("token_high.safetensors", letters(2, 7), letters(2, 7, 128), letters(2, 7))
batches("token_low.safetensors", letters(2, 7), letters(2, 7, -129), letters(2, 7))
batches("token_far.safetensors", letters(2, 7), letters(2, 7, 1 << 40), letters(2, 7))
batches("too_long.safetensors", letters(2, 7), letters(1, 257), letters(2, 7))
batches("one_token.safetensors", letters(2, 7), letters(2, 1), letters(2, 7))
with open(path("model.safetensors.txt"), "w") as f: f.write("not weights\n")


# a classifier of rows of 4 numbers into 3 classes, the second input of as many rows again
from onnx_writer import *

model(path("classes.onnx"),
      graph([node("Add", ["x", "more"], ["h"], "/add"), node("Gemm", ["h", "fc.weight", "fc.bias"], ["logits"], "/fc")],
            [value("x", FLOAT, ["batch", 4]), value("more", FLOAT, ["batch", 4])], [value("logits", FLOAT, ["batch", 3])],
            [tensor("fc.weight", FLOAT, [4, 3], r.reals(12)), tensor("fc.bias", FLOAT, [3], r.reals(3))]))


def rows(batch, label=None, more=None):
    labels = r.ints(batch, 3)
    if label is not None: labels[-1] = label
    more = batch if more is None else more
    return {"x": ("F32", [batch, 4], r.reals(batch * 4)), "more": ("F32", [more, 4], r.reals(more * 4)), "target": ("I64", [batch], labels)}


batches("rows.safetensors", rows(4), rows(2, -100), rows(3))
batches("label_high.safetensors", rows(2), rows(2, 3), rows(2))
batches("label_low.safetensors", rows(2), rows(2, -1), rows(2))
batches("rows_differ.safetensors", rows(2), rows(3, more=1), rows(2))
batches("label_shape.safetensors", rows(2), dict(rows(2), target=("I64", [1], [1])), rows(2))
batches("label_all_ignored.safetensors", rows(2), rows(1, -100), rows(2))
batches("label_floats.safetensors", dict(rows(2), target=("F32", [2], [0.0, 1.0])))
t.safetensors(path("far.safetensors"), {"step%d.%s" % (k, name): tensor for k in (0, 2000000000) for name, tensor in pair(2).items()})
