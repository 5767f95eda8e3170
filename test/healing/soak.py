"""A long stream of batches of random shapes, one in a hundred of them wrong, of every kind there is: none is lost unaccounted, memory stays
flat, variants within their number.   soak.py TRAINER tracks|flow STEPS FOLDER
"""
import json, os, subprocess, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

trainer, kind, steps, folder = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
DIFFERENT, VARIANTS_MOST = 900, 8
r = t.Random(17)
source, width = ("trajectory", 6) if kind == "tracks" else ("sensors", 7)


def good(batch=None, length=None, channels=width):
    batch, length = batch or 1 + r.below(6), length if length is not None else 1 + r.below(24)
    x = ("F32", [batch, length, channels], [v / 4 for v in r.reals(batch * length * channels)])
    target = ("F32", [batch, length, channels], r.reals(batch * length * channels)) if kind == "tracks" else ("I64", [batch], r.ints(batch, 3))
    return {source: x, "target": target}


def changed(name, dtype=None, shape=None, values=None):
    b = good(2, 3)
    d, s, v = b[name]
    b[name] = (dtype or d, shape or s, values or v)
    return b


bad = [(source + "_axis_2", lambda: dict(good(2, 3), **{source: good(2, 3, width - 1)[source]})), ("time_possible", lambda: good(2, 0)),
       (source + "_finite", lambda: changed(source, values=[float("nan")] * (6 * width))), (source + "_rank", lambda: changed(source, shape=[6, width])),
       (source + "_dtype", lambda: changed(source, dtype="I32", values=[1] * (6 * width))), ("target_axis_0", lambda: dict(good(2, 3), target=good(3, 3)["target"]))]
if kind == "flow": bad += [("target_in_row", lambda: changed("target", values=[0, 3])), ("some_target", lambda: changed("target", values=[-100, -100]))]
batches, expected, per_pass = {}, {}, {}
for k in range(DIFFERENT):
    guard, make = bad[k // 100 % len(bad)] if k % 100 == 57 else (None, good)
    if guard: per_pass[k] = guard
    batches.update({"step%d.%s" % (k, n): v for n, v in make().items()})
for k in range(steps):
    guard = per_pass.get(k % DIFFERENT)
    if guard: expected[guard] = expected.get(guard, 0) + 1
stream, log = os.path.join(folder, kind + ".stream"), os.path.join(folder, kind + ".log")
t.safetensors(stream, batches)

command = [trainer, "--batch-file", stream, "--steps", str(steps), "--lr", "1e-4", "--max-skipped", "2%", "--variants", "eager", "--progress", "never", "--log", log]
with open(log + ".said", "w") as said: p = subprocess.Popen(command, stdout=said, stderr=said)
memory, started = [], time.time()
while p.poll() is None:
    try:
        memory.append((time.time() - started, [int(x.split()[1]) for x in open("/proc/%d/status" % p.pid) if x.startswith("VmRSS")][0]))
    except (IndexError, FileNotFoundError, ProcessLookupError): pass
    time.sleep(0.1)
text = open(log + ".said").read()
if p.returncode: sys.exit("status %d: %s" % (p.returncode, text[-2000:]))
if "WARNING: ThreadSanitizer" in text: sys.exit(text[:6000])
lines = [json.loads(x) for x in open(log)]
trained, found, variants = sum("loss" in x for x in lines), {}, set()
for x in lines:
    if x.get("event") == "set_aside": found[x["guard"]] = found.get(x["guard"], 0) + 1
    if x.get("event", "").startswith("variant_"): variants.add(x["variant"])
    if x.get("event") == "variant_dropped" and "not faster" not in x["detail"]: sys.exit("a variant: %s" % x)
half = [m for s, m in memory if s > memory[-1][0] / 2]
print("%s: %d trained, set aside %s, %d variants, %d MiB to %d MiB in the second half" % (kind, trained, found, len(variants), half[0] // 1024, half[-1] // 1024))
assert found == expected, expected
assert trained + sum(found.values()) == steps == lines[-1]["batches"] and lines[-1]["trained"] == trained
assert len(variants) <= VARIANTS_MOST
if steps > 10 * DIFFERENT: assert half[-1] <= 1.05 * half[0] + 2048, memory[-1]  # by then all plans are made
assert all(x["loss"] == x["loss"] for x in lines if "loss" in x)
