"""Another process takes the device's memory in mid-run: ordered by DISC_FAULT="allocation=N,room=BYTES", the Nth allocation is refused and the
device has that many bytes for the program from then on.  refused.py TRAINER FOLDER

The run goes on in less: losses, gradients and weights are those of the run with all memory, bit for bit at equal --row-blocks; the log tells
of it.  Where not even the least can be had, the run ends with status 3 and a checkpoint from which it goes on to the same weights."""
import json, os, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

trainer, folder = sys.argv[1:3]
failures = []
random = t.Random(7)
shapes = [(2, 9), (3, 5), (9, 60), (16, 48), (4, 17), (24, 60), (2, 50), (24, 60)]
t.safetensors(folder + "/batches.safetensors", {"step%d.input_ids" % k: ("I64", list(s), random.ints(s[0] * s[1], 128)) for k, s in enumerate(shapes)})


def run(name, fault="", *options, status=0):
    log = folder + "/" + name + ".log"
    if "--resume" not in options and os.path.exists(log): os.remove(log)
    command = [trainer, "--batch-file", folder + "/batches.safetensors", "--steps", str(len(shapes)), "--progress", "never", "--row-blocks", "1",
               "--log", log, "--save-weights", folder + "/" + name + ".weights", *options]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, DISC_FAULT=fault, DISC_POISON="1"))
    if done.returncode != status: failures.append("%s (%s): exit status %d, wanted %d: %s" % (name, fault, done.returncode, status, done.stderr))
    lines = [json.loads(line) for line in open(log)] if os.path.exists(log) else []
    return [x for x in lines if "loss" in x], [x for x in lines if "event" in x], done.stderr


def weights(name):
    return open(folder + "/" + name + ".weights", "rb").read() if os.path.exists(folder + "/" + name + ".weights") else None


def plan(shape):
    said = subprocess.run([trainer, "--plan", "--json", "--row-blocks", "1", "--dim", "batch=%d" % shape[0], "--dim", "seq=%d" % shape[1]], check=True, capture_output=True, text=True)
    return json.loads(said.stdout.splitlines()[-1])


def losses(steps):
    return [(x["step"], x["loss"]) for x in steps]


clean, events, _ = run("clean")
if events: failures.append("events of a run without faults: %r" % events)
grown = [k for k in range(len(clean)) if clean[k]["peak_bytes"] > max([x["peak_bytes"] for x in clean[:k]], default=0)]
plans = [plan(s) for s in shapes]
if len(grown) != 4: failures.append("the arena grows at %r" % grown)

for n, k in enumerate(grown):
    later = range(k, len(shapes))
    least, most = max(plans[i]["minimum_bytes"] for i in later), plans[k]["peak_bytes"] - 1
    for room in sorted({least, (least + most) // 2, most} if least <= most else {least}):
        if room < least: continue
        # allocation 1 is the state; 2 the first arena
        steps, events, said = run("less", "allocation=%d,room=%d" % (n + 2, room))
        what = "refused at step %d, room for %d" % (k, room)
        if losses(steps) != losses(clean): failures.append(what + ": other losses")
        if weights("less") != weights("clean"): failures.append(what + ": other weights")
        shrunk = [e for e in events if e["event"] == "budget_shrunk"]
        if [e["step"] for e in shrunk][:1] != [k] or shrunk[0]["refused_bytes"] + plans[k]["state_bytes"] != clean[k]["peak_bytes"]: failures.append(what + ": events %r" % events)
        if any(s["peak_bytes"] > room for s in steps[k:]): failures.append(what + ": passed")
        if room < most and not any(s["recomputed"] for s in steps): failures.append(what + ": nothing was made again")
        if "no " not in said or "planned again" not in said: failures.append(what + ": said %r" % said)
        told = [e for e in events[-1].get("events", []) if e["event"] == "budget_shrunk"]
        if not told or told[0]["n"] != len(shrunk): failures.append(what + ": summary %r" % events[-1])

# not even the least can be had
k = grown[-1]
fault = "allocation=%d,room=%d" % (len(grown) + 1, plans[k]["minimum_bytes"] - 1)
checkpoint = folder + "/checkpoint"
os.makedirs(checkpoint, exist_ok=True)
steps, events, said = run("short", fault, "--checkpoint", checkpoint, status=3)
if losses(steps) != losses(clean[:k]) or not any(e["event"] == "no_room" and e["step"] == k for e in events): failures.append("short: %r %r" % (steps, events))
if "does not fit into memory: needs %d bytes" % plans[k]["minimum_bytes"] not in said: failures.append("short: said %r" % said)
steps, _, _ = run("short", "", "--checkpoint", checkpoint, "--resume")
if losses(steps) != losses(clean) or weights("short") != weights("clean"): failures.append("resumed: other losses or weights")

# memory comes back: refused once, for the first arena; later steps need more than was left then
steps, events, _ = run("back", "allocation=2")
raised = [e["step"] for e in events if e["event"] == "budget_raised"]
if losses(steps) != losses(clean) or weights("back") != weights("clean") or not raised: failures.append("memory that comes back: %r" % events)

# the host has no memory for copies: planned again without
rates = folder + "/rates.json"
open(rates, "w").write('{"device":"any","flops":1e9,"moved":1e9,"copied":1e12}')
limit = ["--memory-limit", str(plans[k]["peak_bytes"] * 8 // 10), "--offload", "on", "--calibration", rates]
steps, events, _ = run("copied", "", *limit)
if not any(s["offloaded"] for s in steps): failures.append("nothing was offloaded")
steps, events, _ = run("uncopied", "host_memory=1", *limit)
if losses(steps) != losses(clean) or any(s["offloaded"] for s in steps) or not any(e["event"] == "offload_off" for e in events): failures.append("no memory for copies: %r" % events)
for line in failures: print("FAILED:", line)
sys.exit(bool(failures))
