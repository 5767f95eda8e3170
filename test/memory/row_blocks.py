"""Rows in blocks give what whole rows give; the same bits where there are as many blocks.  row_blocks.py FOLDER WITH_BLOCKS UNFUSED NEXT NEXT_UNFUSED"""
import json, os, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

folder, with_blocks, unfused, following, following_unfused = sys.argv[1:6]
failures = []


def run(program, name, batches="batches", *options, status=0):
    files = [x for kind in ("gradients", "weights") for x in ("--save-" + kind, "%s/%s.%s" % (folder, name, kind))]
    command = [program + "/trainer", "--batch-file", "%s/%s.safetensors" % (folder, batches), "--progress", "never", "--max-skipped", "30%", "--lr", "0.1"]
    done = subprocess.run(command + files + ["--log", folder + "/log"] + list(options), capture_output=True, text=True)
    if done.returncode != status: sys.exit("%s: exit status %d, wanted %d: %s" % (name, done.returncode, status, done.stderr))
    if status: return None
    lines = [json.loads(line) for line in open(folder + "/log")]
    tensors = {}
    for kind in ("gradients", "weights"):
        for k, (dtype, shape, raw) in t.read("%s/%s.%s" % (folder, name, kind))[0].items(): tensors[kind, k] = t.numbers((dtype, shape, raw))
    return {"loss": [x["loss"] for x in lines if "loss" in x], "peak": max(x["peak_bytes"] for x in lines if "loss" in x), "tensors": tensors,
            "program": sorted({(x["program"], x["blocks"]) for x in lines if "loss" in x}), "events": [x["event"] for x in lines if "event" in x]}


def near(a, b, what, loss=1e-6, tensor=2e-5):
    if len(a["loss"]) != len(b["loss"]) or a["events"] != b["events"]: failures.append("%s: other steps" % what)
    for x, y in zip(a["loss"], b["loss"]):
        if abs(x - y) > loss * abs(y): failures.append("%s: loss %r, wanted %r" % (what, x, y))
    for k, wanted in b["tensors"].items():
        most = max(map(abs, wanted))
        off = max(abs(x - y) for x, y in zip(a["tensors"][k], wanted))
        if off > tensor * most: failures.append("%s: %s is off by %g of %g" % (what, k, off, most))


def plan(program, *options, batch=5, seq=601):
    said = subprocess.run([program + "/trainer", "--plan", "--json", "--dim", "batch=%d" % batch, "--dim", "seq=%d" % seq] + list(options), check=True, capture_output=True, text=True).stdout
    return json.loads(said)


for program, plain in (with_blocks, unfused), (following, following_unfused):
    name = os.path.basename(program)
    wanted = run(plain, "plain")
    free = run(program, "free")
    near(free, wanted, name)
    if len(free["loss"]) != 4: failures.append("%s: %d steps" % (name, len(free["loss"])))
    for n in "1", "3", "1000":
        near(run(program, "blocks", "batches", "--row-blocks", n), wanted, "%s in %s blocks" % (name, n))

rows, words = 5 * 601, 1500
whole, free, least = plan(with_blocks, "--row-blocks", "1"), plan(with_blocks), plan(with_blocks, "--memory-limit", str(plan(with_blocks)["minimum_bytes"]))
if whole["blocks"] != 1 or least["blocks"] <= free["blocks"] or not least["feasible"]: failures.append("plans: %r" % [whole, free, least])
if whole["minimum_bytes"] - least["minimum_bytes"] < 0.5 * rows * words * 4: failures.append("blocks save too little: %r" % [whole, least])
if whole["arena_bytes"] > 1.6 * rows * words * 4: failures.append("scores or their gradient stand twice: %r" % whole)

limit = str(free["minimum_bytes"])
tall = run(with_blocks, "tall", "tall")
exact = run(with_blocks, "exact", "tall", "--memory-limit", limit)
near(exact, tall, "the least bytes")
if exact["peak"] != int(limit): failures.append("the least bytes are %s, the step took %d" % (limit, exact["peak"]))
run(with_blocks, "less", "tall", "--memory-limit", str(int(limit) - 1), status=3)
if run(with_blocks, "same", "tall", "--memory-limit", limit)["tensors"] != exact["tensors"]: failures.append("one budget, other bits")
between = run(with_blocks, "between", "tall", "--row-blocks", "1", "--memory-limit", str(whole["minimum_bytes"]))
one = run(with_blocks, "one", "tall", "--row-blocks", "1")
if between["tensors"] != one["tensors"]: failures.append("a budget changes bits")

# products done again in blocks, for the least memory
many = {"batch": 16, "seq": 1200}
free, whole = plan(with_blocks, **many), plan(with_blocks, "--row-blocks", "1", **many)
limit = str(free["minimum_bytes"])
twice = plan(with_blocks, "--memory-limit", limit, **many)
if twice["program"] != "train_lean" or not twice["recompute_share"] > 0 or free["recompute_share"] != 0: failures.append("no products done again: %r" % twice)
if free["minimum_bytes"] > whole["minimum_bytes"] - 0.85 * many["batch"] * many["seq"] * words * 4: failures.append("products done again save too little: %r" % [free, whole])
near(run(with_blocks, "again", "taller", "--memory-limit", limit), run(with_blocks, "taller", "taller"), "products done again")
run(with_blocks, "none", "taller", "--memory-limit", str(int(limit) - 1), status=3)

# and in seven
seven, twice = plan(with_blocks, "--row-blocks", "7"), plan(with_blocks, "--row-blocks", "7", "--lean", "on")
limit = str(twice["minimum_bytes"])
if (seven["program"], twice["program"]) != ("train", "train_lean") or not twice["recompute_share"] > 0 or seven["recompute_share"] != 0: failures.append("no products done again: %r" % [seven, twice])
if twice["minimum_bytes"] > whole["minimum_bytes"] - 0.8 * rows * words * 4: failures.append("products done again save too little: %r" % [twice, whole])
in_seven = lambda name, *options, **more: run(with_blocks, name, "tall", "--row-blocks", "7", *options, **more)
lean = in_seven("lean", "--lean", "on")
near(lean, tall, "products done again")
if lean["program"] != [("train_lean", 7)]: failures.append("lean: ran %r" % lean["program"])
if in_seven("lean_least", "--lean", "on", "--memory-limit", limit)["tensors"] != lean["tensors"]: failures.append("a budget changes the lean step's bits")
in_seven("less", "--lean", "on", "--memory-limit", str(int(limit) - 1), status=3)

# where the number of blocks is said, no budget changes a bit: it is the same step that does not fit any more
plain, limit = in_seven("plain"), str(seven["minimum_bytes"])
least = in_seven("least", "--memory-limit", limit)
if plain["program"] != [("train", 7)] or least["program"] != plain["program"] or least["tensors"] != plain["tensors"]: failures.append("seven blocks: other bits within a budget")
in_seven("less", "--memory-limit", str(int(limit) - 1), status=3)
for line in failures: print("FAILED:", line)
sys.exit(bool(failures))
