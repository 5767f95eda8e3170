"""Each kernel of a step made to fail its launch, and to leave garbage, in turn: the unfused program takes over, and the step is what it
would have been.   fallback.py TRAINER BATCHES FOLDER
"""
import os, re, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checks
from checks import fail

trainer, batches, folder = sys.argv[1:]
STEPS = 3


def run(what, fault, *more, status=0):
    log = os.path.join(folder, "log")
    command = [trainer, "--batch-file", batches, "--steps", str(STEPS), "--progress", "never", "--log", log, *more]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, DISC_FAULT=fault), timeout=600)
    if done.returncode != status: fail("%s: status %d: %s" % (what, done.returncode, done.stderr[-500:]))
    lines = checks.lines(log)
    return checks.losses(lines), checks.events(lines, "fell_back"), done


def close(a, b): return len(a) == len(b) and all(abs(x - y) <= 1e-4 * abs(y) for x, y in zip(a, b))


text = open(os.path.join(os.path.dirname(trainer), "model.cu")).read()
step = text[text.index("int train_step(Step *s)"):]
step = step[:step.index("\n}\n")]
kernels = sorted(set(re.findall(r"LAUNCH\(s, (\w+),", step)) | set(re.findall(r"\b(dot)\(s, ", step)))
clean, events, _ = run("clean", "")
if events or len(clean) != STEPS: fail("clean: %s" % events)
taken_over = 0
for kernel in kernels:
    losses, events, _ = run(kernel, "launch=1,kernel=" + kernel)
    if [(e["guard"], e["kernel"], e["step"], e["action"]) for e in events] != [("launch_status", kernel, 0, "unfused")]: fail("%s: events %s" % (kernel, events))
    if not close(losses, clean): fail("%s fails: losses %s, wanted %s" % (kernel, losses, clean))
    losses, events, _ = run(kernel, "garble=1,kernel=" + kernel, "--verify-every", "1")
    taken_over += len(events) == 1
    if events and (events[0]["guard"], events[0]["step"]) != ("same_as_unfused", 0): fail("%s: events %s" % (kernel, events))
    if not close(losses, clean): fail("%s leaves garbage: losses %s, wanted %s" % (kernel, losses, clean))
if taken_over < len(kernels) / 2: fail("garbage of %d kernels of %d was found" % (taken_over, len(kernels)))

# one that fails for good: after three failures the fused step is not tried again
unfused = open(os.path.join(os.path.dirname(trainer), "unfused.cu")).read()
losses, events, _ = run("for good", "launch=1,times=1000,kernel=" + [k for k in kernels if k + "," not in unfused][0])
if len(events) != STEPS or not close(losses, clean): fail("for good: %s, %s" % (events, losses))
# verified and right: nothing happens
losses, events, _ = run("verified", "", "--verify-every", "1")
if events or losses != clean: fail("verified: %s, %s" % (events, losses))
# nobody takes over where that is not wanted
run("stop", "launch=1", "--on-anomaly", "stop", status=1)
print("%d kernels failed in turn; garbage of %d changed results and was found" % (len(kernels), taken_over))
checks.finish()
