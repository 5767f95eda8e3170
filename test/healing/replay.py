"""A unit that is made operation by operation is made so when it is run again, too: under a budget that gives buffers up, the losses are bit for
bit those of a run with the same units failing and no budget.   replay.py TRAINER BATCHES FOLDER KERNEL...
"""
import json, os, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checks
from checks import fail

trainer, batches, folder = sys.argv[1:4]


def run(what, fault, *more):
    log = os.path.join(folder, "log")
    command = [trainer, "--batch-file", batches, "--steps", "4", "--progress", "never", "--log", log, "--row-blocks", "1", "--variants", "off", *more]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, DISC_FAULT=fault), timeout=600)
    if done.returncode: fail("%s: status %d: %s" % (what, done.returncode, done.stderr[-500:]))
    lines = checks.lines(log)
    return checks.losses(lines), sorted((e["unit"], e["kernel"]) for e in checks.events(lines, "fell_back")), [x for x in lines if "loss" in x]


def plan(*more):
    dims = run("dims", "")[2][0]["dims"]
    command = [trainer, "--plan", "--json", "--row-blocks", "1", *more] + [x for n, v in dims.items() for x in ("--dim", "%s=%d" % (n, v))]
    return json.loads(subprocess.run(command, capture_output=True, text=True).stdout)


least = plan()["minimum_bytes"]
again = 0
for kernel in sys.argv[4:]:
    fault = "launch=1,times=1000000000,kernel=" + kernel
    losses, units, lines = run(kernel, fault)
    room = max(x["peak_bytes"] for x in lines) # with what the operations hand each other
    tight, same, lines = run(kernel + " within %d" % least, fault, "--memory-limit", str(least))
    if tight != losses: fail("%s: losses %s under a budget, %s without" % (kernel, tight, losses))
    if same != units or not units: fail("%s: units %s under a budget, %s without" % (kernel, same, units))
    if max(x["peak_bytes"] for x in lines) > least: fail("%s: %s bytes of %d" % (kernel, max(x["peak_bytes"] for x in lines), least))
    again += max(x["recomputed"] for x in lines)
if not again: fail("nothing ran again")
print("%d kernels failed within the least budget; launches that ran again: %d" % (len(sys.argv) - 4, again))
checks.finish()
