"""Models of random operators, operands and attributes, most of them wrong.  disc-gen must end with 0 or 2: never with a fault of its own.

operators.py DISC_GEN FOLDER [RUNS [SEED]]
"""
import os, random, re, shutil, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from onnx_writer import *

disc_gen, folder = sys.argv[1:3]
runs, seed = int((sys.argv + [400] * 4)[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1
r = random.Random(seed)
environment = dict(os.environ, ASAN_OPTIONS="exitcode=99:allocator_may_return_null=1", UBSAN_OPTIONS="print_stacktrace=1:exitcode=99")
with open("generator/onnx/ops.def") as f: operators = [x for x in re.findall(r'ONNX\("", "(\w+)"', f.read()) if x not in ("Loop", "If", "Scan", "SequenceMap")]

INTS = "axes perm kernel_shape strides pads dilations split".split()
REALS = "alpha beta epsilon scale p bias momentum high low seed".split()
TEXTS = "mode direction reduction equation approximate auto_pad coordinate_transformation_mode".split()
NUMBERS = """axis keepdims to transA transB group hidden_size num_outputs largest k upper allowzero batch_dims exclusive reverse noop_with_empty_axes linear_before_reset
    layout num_heads q_num_heads kv_num_heads is_causal ceil_mode count_include_pad select_last_index blocksize size training_mode num_groups sorted dtype sample_size depth
    stash_type start end""".split()
WORDS = "nearest linear constant reflect edge bidirectional forward reverse mean none add mul sum bij,bjk->bik ij->ji ...i->... i tanh SAME_UPPER VALID align_corners".split()


def some(n): return [r.uniform(-1, 1) for _ in range(n)]


INPUTS = [("x", FLOAT, ["batch", 4]), ("y", FLOAT, ["batch", "seq", 4]), ("image", FLOAT, ["batch", 3, "height", "width"]), ("ids", INT64, ["batch", "seq"]),
          ("mask", BOOL, ["batch", "seq"]), ("number", FLOAT, [])]
TENSORS = [("w44", FLOAT, [4, 4], some(16)), ("w4", FLOAT, [4], some(4)), ("kernel", FLOAT, [5, 3, 3, 3], some(135)), ("b5", FLOAT, [5], some(5)), ("c3", FLOAT, [3], some(3)),
           ("r16", FLOAT, [1, 16, 4], some(64)), ("r12", FLOAT, [1, 12, 4], some(48)), ("r4", FLOAT, [1, 4, 4], some(16)), ("i0", INT64, [], [0]), ("i1", INT64, [1], [1]),
           ("i2", INT64, [2], [0, -1]), ("i3", INT64, [3], [0, 0, -1]), ("i4", INT64, [4], [1, 2, 2, 2]), ("i8", INT64, [8], [0, 0, 1, 1, 0, 0, 1, 1]),
           ("f1", FLOAT, [1], [2.0]), ("f4", FLOAT, [4], [1, 1, 2, 2]), ("none", INT64, [0], []), ("no_rows", FLOAT, [0, 4], []), ("huge", INT64, [2], [1 << 40, 1 << 40]),
           ("yes", BOOL, [], [True]), ("double", DOUBLE, [4], some(4)), ("bytes", UINT8, [4], [1, 2, 3, 4])]


def attribute_value(name):
    if name in INTS: return [r.choice([-1, 0, 1, 2, 3, 0, 1, 2, -2, 5]) if r.random() < 0.8 else r.choice([1 << 40, -(1 << 62)]) for _ in range(r.randrange(0, 5))]
    if name in REALS: return r.choice([0.0, 1.0, -1.0, 0.5, 1e-5, float("nan"), float("inf"), 1e30])
    if name in TEXTS: return r.choice(WORDS)
    return r.choice([-1, 0, 1, 2, 3, 4, 6, 7, 9, 10, 11, 99, -2, 1 << 40, -(1 << 63)])


def random_model(path):
    names, nodes = [x[0] for x in INPUTS + TENSORS], []
    for k in range(r.randrange(1, 4)):
        inputs = [r.choice(names[-3:] if r.random() < 0.4 else names) for _ in range(r.choice([1, 1, 2, 2, 3, 3, 4, 5, 6]))]
        if len(inputs) > 1 and r.random() < 0.1: inputs[r.randrange(1, len(inputs))] = ""
        outputs = ["o%d_%d" % (k, i) for i in range(r.choice([1, 1, 1, 1, 2, 3]))]
        attributes = {a: attribute_value(a) for a in r.sample(INTS + REALS + TEXTS + NUMBERS, r.choice([0, 0, 1, 1, 2, 3, 6]))}
        nodes.append(node(r.choice(operators), inputs, outputs, "/n%d" % k, **attributes))
        names += outputs
    nodes += [node("ReduceMean", [names[-1]], ["mean"], "/mean", keepdims=0), node("Mul", ["mean", "gain"], ["loss"], "/loss")]
    model(path, graph(nodes, [value(*x) for x in INPUTS], [value("loss", FLOAT, [])], [tensor(*x) for x in TENSORS + [("gain", FLOAT, [], [1.5])]]),
          opset=r.choice([18, 18, 13, 21, 11, 9, 7, 24]))


os.makedirs(folder, exist_ok=True)
failures, compiled = 0, 0
for k in range(runs):
    path = os.path.join(folder, "model.onnx")
    random_model(path)
    options = r.choice([["--loss", "loss", "--train", "."], ["--inference"], ["--loss", "loss", "--train", ".", "--no-fuse"]])
    ended = subprocess.run([disc_gen, path, "-o", os.path.join(folder, "out"), *options], capture_output=True, text=True, errors="replace", env=environment, timeout=120)
    compiled += ended.returncode == 0
    if ended.returncode in (0, 2): continue
    failures += 1
    kept = os.path.join(folder, "brings_down_%d_%d.onnx" % (seed, k))
    shutil.copy(path, kept)
    print("%s %s: status %d\n%s" % (kept, " ".join(options), ended.returncode, ended.stderr[-2000:]))
print("%d models from seed %d, %d compiled, %d failures" % (runs, seed, compiled, failures))
sys.exit(bool(failures))
