"""python3 test/precision/overflow.py FP16 FP32 SCRATCH: folders of models/tracks.onnx built with --precision fp16 and without."""
import array, json, os, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from tensors import Random, read, safetensors

fp16, fp32, scratch = sys.argv[1:]
failures = []

def check(right, *what):
    if not right: failures.append(" ".join(map(str, what)))

def batches(path, targets):
    """A batch each, all alike but for the size of the targets."""
    out = {}
    for step, size in enumerate(targets):
        random = Random(3)
        out["step%d.trajectory" % step] = ("F32", [3, 10, 6], random.reals(180))
        out["step%d.target" % step] = ("F32", [3, 10, 6], [size * x for x in random.reals(180)])
    safetensors(path, out)

def train(folder, data, steps, *more):
    log = scratch + "/log.jsonl"
    if os.path.exists(log): os.remove(log)
    ran = subprocess.run([folder + "/trainer", "--batch-file", data, "--steps", str(steps), "--progress", "never", "--log", log, *more],
                         capture_output=True, text=True)
    rows = [json.loads(line) for line in open(log)] if os.path.exists(log) else []
    return ran, [r for r in rows if "loss" in r], [r for r in rows if "event" in r]

def numbers(raw): return array.array("f", raw)

def weights(path): return {name: t[2] for name, t in read(path)[0].items()}

# ---- an overflow in the first step ----
once = scratch + "/once.safetensors"
batches(once, [3e4])
ran, steps, events = train(fp16, once, 1, "--save-weights", scratch + "/after.safetensors")
check(ran.returncode == 0, "exit status", ran.returncode, ran.stderr)
check("gradients are not finite at a loss scale of 65536" in ran.stderr, "the skipped update is not told:", ran.stderr)
check([(e["event"], e["step"], e["loss_scale"], e["next_loss_scale"]) for e in events if e["event"] == "overflow"] == [("overflow", 0, 65536, 32768)],
      "events:", events)
check(len(steps) == 1, "a skipped step has a line in the log:", steps)
check(weights(fp16 + "/weights.safetensors") == weights(scratch + "/after.safetensors"), "a skipped step changed a weight")

# ---- it goes on ----
many = scratch + "/many.safetensors"
batches(many, [3e4] * 3 + [1] * 60)
ran, steps, events = train(fp16, many, 63, "--lr", "3e-3")
check(ran.returncode == 0, "exit status", ran.returncode, ran.stderr)
usual = [s["loss"] for s in steps if s["step"] >= 3]
check(usual[-1] < 0.9 * usual[0], "the loss does not fall after overflows:", usual)
skipped = [e for e in events if e["event"] == "overflow"]
check([e["step"] for e in skipped][:3] == [0, 1, 2] and len(skipped) < 6, "updates skipped:", skipped)
check(all(e["next_loss_scale"] == e["loss_scale"] / 2 for e in skipped), "the scale is not halved:", skipped)
check(all(a["next_loss_scale"] == b["loss_scale"] for a, b in zip(skipped, skipped[1:])), "the scale of one step is not that of the next:", skipped)

# ---- taken up again ----
whole, parts = scratch + "/whole", scratch + "/parts"
batches(scratch + "/some.safetensors", [1, 3e4, 1, 1, 1e5, 1, 1])
train(fp16, scratch + "/some.safetensors", 7, "--checkpoint", whole)
for steps_so_far in 2, 5, 7:
    resume = ["--resume"] if steps_so_far > 2 else []
    ran, _, _ = train(fp16, scratch + "/some.safetensors", steps_so_far, "--checkpoint", parts, *resume)
    check(ran.returncode == 0, "exit status", ran.returncode, ran.stderr)
a, about_a = read(whole + "/checkpoint.safetensors")
b, about_b = read(parts + "/checkpoint.safetensors")
check(a == b, "a resumed run has other weights or states")
check(about_a == about_b and float(about_a["loss_scale"]) < 65536, "metadata:", about_a, about_b)
check(int(about_a["updates"]) < 7 and int(about_a["step"]) == 7, "a skipped step counts as an update:", about_a)

# ---- gradients without the scale ----
batches(once, [1])
found = {}
for folder in fp16, fp32:
    path = "%s/gradients.%s.safetensors" % (scratch, os.path.basename(folder))
    ran, _, _ = train(folder, once, 1, "--save-gradients", path)
    check(ran.returncode == 0, "exit status", ran.returncode, ran.stderr)
    found[folder] = weights(path)
for name, raw in found[fp32].items():
    want, have = numbers(raw), numbers(found[fp16][name])
    most = max(map(abs, want))
    worst = max(abs(x - y) for x, y in zip(want, have))
    check(worst <= 0.02 * most, "gradient of", name, "is off by", worst, "where the largest is", most)

# ---- differences of losses of short products tell nothing ----
ran = subprocess.run([fp16 + "/trainer", "--batch-file", once, "--check-gradients"], capture_output=True, text=True)
check(ran.returncode == 2 and "--precision fp64" in ran.stderr, "--check-gradients: exit status", ran.returncode, ran.stderr)

for f in failures: print("FAILED:", f)
print("%d updates skipped of 63, loss %g -> %g" % (len(skipped), usual[0], usual[-1]))
sys.exit(bool(failures))
