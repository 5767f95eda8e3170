"""Each kernel of a step made to fail its launch, and to leave garbage, in turn: its unit is made operation by operation, once and for all, and
losses and gradients are what they would have been.

  fallback.py TRAINER BATCHES FOLDER [STEPS [KERNELS SEED]]     KERNELS: so many of them, drawn by SEED; 0: all
"""
import array, json, os, random, re, struct, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checks
from checks import fail

trainer, batches, folder = sys.argv[1:4]
steps, most, seed = [int(x) for x in sys.argv[4:]] + [3, 0, 0][len(sys.argv) - 4:]


def floats(path):
    with open(path, "rb") as f:
        head = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        rest = f.read()
    return {name: array.array("f", rest[t["data_offsets"][0]:t["data_offsets"][1]]) for name, t in head.items() if t.get("dtype") == "F32"}


def run(what, fault, *more, status=0, unless=None):
    """Losses, events, gradients; None where the run fails with the words `unless`."""
    log, gradients = os.path.join(folder, "log"), os.path.join(folder, "gradients")
    command = [trainer, "--batch-file", batches, "--steps", str(steps), "--progress", "never", "--log", log, "--save-gradients", gradients, *more]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, DISC_FAULT=fault), timeout=600)
    if unless and done.returncode and unless in done.stderr: return None
    if done.returncode != status: fail("%s: status %d: %s" % (what, done.returncode, done.stderr[-500:]))
    lines = checks.lines(log)
    losses = checks.losses(lines)
    return losses, checks.events(lines, "fell_back"), floats(gradients) if losses else {}


def same(what, losses, gradients):
    if len(losses) != len(clean) or any(abs(a - b) > 1e-5 * max(abs(b), 1e-3) for a, b in zip(losses, clean)): fail("%s: losses %s, wanted %s" % (what, losses, clean))
    for name, want in wanted.items():
        top = max(map(abs, want), default=0)
        off = max((abs(a - b) for a, b in zip(gradients.get(name, ()), want)), default=0)
        if len(gradients.get(name, ())) != len(want) or not off <= 1e-4 * max(top, 1e-3): fail("%s: gradient of %s is off by %g of %g" % (what, name, off, top))


text = open(os.path.join(os.path.dirname(trainer), "model.cu")).read()
step = text[text.index("int train_step(Step *s)"):]
step = step[:step.index("\n}\n")]
kernels = sorted(set(re.findall(r"\b(?:LAUNCH|EPILOGUE)(?:_PLAIN|_FOURS)?\(s, (\w+),", step)) | {"conv" + c for c in re.findall(r"\bconv\dd(\w*)\(s, ", step)} | set(re.findall(r"\b(dot)\(s, ", step)))
if not kernels: fail("no kernels in %s" % trainer)
if most and most < len(kernels): kernels = sorted(random.Random(seed).sample(kernels, most))
clean, events, wanted = run("clean", "")
if events or len(clean) != steps: fail("clean: %s" % events)
found = 0
single = []
for kernel in kernels:
    failed = run(kernel, "launch=1,times=1000000000,kernel=" + kernel, unless="has no other form") # for good: each unit that has it, once
    if not failed: # found before the commit point, as what is found is: a step that ends here has changed nothing
        single.append(kernel)
        continue
    losses, events, gradients = failed
    if {(e["guard"], e["kernel"], e["action"]) for e in events} != {("launch_status", kernel, "unfused")}: fail("%s: events %s" % (kernel, events))
    if len({e["unit"] for e in events}) != len(events): fail("%s: a unit fell back twice: %s" % (kernel, events))
    same(kernel + " fails for good", losses, gradients)
    losses, events, gradients = run(kernel, "garble=1,kernel=" + kernel, "--verify-every", "1")
    found += len(events) == 1
    if len(events) > 1 or events and events[0]["guard"] != "same_as_unfused": fail("%s: events %s" % (kernel, events))
    same(kernel + " leaves garbage", losses, gradients)
kernels = [k for k in kernels if k not in single]
if found < 0.9 * len(kernels): fail("garbage of %d kernels of %d was found" % (found, len(kernels)))

# verified and right: nothing happens
losses, events, gradients = run("verified", "", "--verify-every", "1")
if events or losses != clean: fail("verified: %s, %s" % (events, losses))
# nobody takes over where that is not wanted
run("stop", "launch=1", "--on-anomaly", "stop", status=1)
print("%d kernels failed in turn%s; garbage of %d changed results and was found%s" %
      (len(kernels), " (seed %d)" % seed if most else "", found, "; without another form: " + ", ".join(single) if single else ""))
checks.finish()
