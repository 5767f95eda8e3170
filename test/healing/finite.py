"""Steps whose gradients are no finite numbers though their loss is one.

  finite.py elements FOLDER TRAINER            of one element of a weight of models.py's roots: it keeps its value and moments, bit for bit, and
                                               the others become what they become without it
  finite.py policy FOLDER TRAINER              --on-anomaly, --quarantine, --max-skipped
  finite.py statistics FOLDER TRAINER          of spread: the running variance
  finite.py kernels FOLDER TRAINER BATCHES …   a kernel behind the commit leaves NaN: it is found and computed unfused from then on
"""
import math, os, re, struct, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checks, tensors as t
from checks import fail

what, folder, trainer, *more = sys.argv[1:]


def path(name): return os.path.join(folder, name)


def run(name, batches, *options, status=0, fault=""):
    """Losses, events, what was said, and all tensors of the checkpoint as they lie there."""
    kept = path("kept")
    if os.path.exists(kept + "/checkpoint.safetensors"): os.remove(kept + "/checkpoint.safetensors")
    command = [trainer, "--batch-file", batches, "--progress", "never", "--log", path("log"), "--checkpoint", kept, *options]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, DISC_FAULT=fault), timeout=600)
    if done.returncode != status: fail("%s: status %d, wanted %d: %s" % (name, done.returncode, status, done.stderr[-600:]))
    lines = checks.lines(path("log"))
    tensors, about = t.read(kept + "/checkpoint.safetensors") if os.path.exists(kept + "/checkpoint.safetensors") else ({}, {})
    for tensor, (dtype, shape, data) in tensors.items():
        if dtype in ("F32", "F64") and not all(map(math.isfinite, floats(dtype, data))): fail("%s: %s is %s" % (name, tensor, floats(dtype, data)[:8]))
    return checks.losses(lines), checks.events(lines), done, tensors, about


def floats(dtype, data): return struct.unpack("<%d%s" % (len(data) // (4 if dtype == "F32" else 8), "f" if dtype == "F32" else "d"), data)


def rows(*x): return {"x": ("F32", [len(x), 4], [v for row in x for v in row]), "target": ("F32", [len(x), 1], [0.25] * len(x))}


def elements():
    """Of 0 the third element's gradient is none; of 1e-30 it is a number, and the loss the same."""
    for name, third in ("zero", 0.0), ("tiny", 1e-30):
        checks.stream(path(name), *[rows([a, 0.5, third, b], [0.25, a, third, 0.125]) for a, b in ((0.25, 1), (0.5, 0.75), (1, 0.5))])
    many = ("--max-skipped", "100%", "--lr", "0.015625")
    start = run("start", path("zero"), "--steps", "1", "--lr", "0", "--weight-decay", "0", *many[:2])[3]
    losses, events, done, found, _ = run("zero", path("zero"), *many)
    wanted, none, _, want, _ = run("tiny", path("tiny"), *many)
    if none: fail("events of a clean run: %s" % none)
    if losses != wanted or len(losses) != 3: fail("losses %s, wanted %s" % (losses, wanted))
    told = [(e["event"], e["step"], e["guard"], e["source"], e["cause"], e["action"]) for e in events[:-1]]
    looks = os.path.exists(os.path.join(os.path.dirname(trainer), "unfused.cu")) # a program that is not fused has nothing to compare with
    looked = ["numbers", "numbers", "not looked for"] if looks else ["not looked for"] * 3
    if told != [("trained_in_part", k, "finite_update", "scale", looked[k], "elements_kept") for k in range(3)]: fail("events %s" % told)
    if events[0]["node"] not in (("/root", "/scale") if looks else (None,)): fail("the first NaN is made by %s" % events[0]["node"])
    if "3 batches set aside or trained in part (finite_update 3)" not in done.stdout: fail("said %s" % done.stdout)
    for name in found:
        dtype, shape, data = found[name]
        size = {"F32": 4, "F64": 8}.get(dtype)
        if "scale" not in name:
            if data != want[name][2]: fail("%s differs" % name)
            continue
        for i in range(4):
            part = slice(i * size, i * size + size)
            other = (want if i != 2 else start)[name][2]
            zero = i == 2 and name != "scale" and not name.endswith(".weight:scale")
            if data[part] != (bytes(size) if zero and "." in name else other[part]): fail("%s[%d]: %s, wanted %s" % (name, i, floats(dtype, data), floats(dtype, other)))
        if i == 3 and data == start[name][2]: fail("%s has not changed at all" % name)


def policy():
    good, bad = rows([0.25, 0.5, 0.125, 1]), rows([0.25, 0.5, 0, 1])
    checks.stream(path("stream"), good, bad, good)
    losses, events, done, _, about = run("heal", path("stream"), "--max-skipped", "50%", "--quarantine", path("aside"))
    if len(losses) != 3 or about["skipped"] != "1": fail("heal: losses %s, %s" % (losses, about))
    if os.listdir(path("aside")) != ["batch1.safetensors"]: fail("set aside: %s" % os.listdir(path("aside")))
    if t.read(path("aside/batch1.safetensors"))[1]["guard"] != "finite_update": fail("kept with %s" % t.read(path("aside/batch1.safetensors"))[1])
    skipped, events, _, _, _ = run("skip", path("stream"), "--max-skipped", "50%", "--on-anomaly", "skip")
    if skipped != losses or [(e["event"], e.get("cause")) for e in events] != [("trained_in_part", "not looked for"), ("summary", None)]: fail("skip: %s" % events)
    stopped, events, done, _, about = run("stop", path("stream"), "--on-anomaly", "stop", status=4)
    if stopped != losses[:2] or about["step"] != "2": fail("stop: %s, %s" % (stopped, about))
    if "guard finite_update does not hold" not in done.stderr: fail("stop: said %s" % done.stderr)
    _, _, done, _, _ = run("too many", path("stream"), status=4)
    if "1 of 3 batches were set aside or trained in part, more than --max-skipped 1%" not in done.stderr: fail("too many: said %s" % done.stderr)
    _, events, done, _, _ = run("traced", path("stream"), "--max-skipped", "50%", "--trace-nan")
    if [e["event"] for e in events] != ["nan", "trained_in_part", "summary"] or "the first NaN was made by" not in done.stderr: fail("traced: %s" % events)
    checks.stream(path("clean"), good, good)
    if run("clean", path("clean"))[1]: fail("a clean run has events")


def statistics():
    good, huge = rows([0.25, 0.5, 0.125, 1], [1, 0.5, 0.25, 2]), rows([1e25, 0.5, 0.125, 1], [-1e25, 0.25, 0.5, 2])
    checks.stream(path("stream"), good, huge, good)
    losses, events, _, found, _ = run("huge", path("stream"), "--max-skipped", "90%")
    told = {e["source"] for e in events if e["event"] == "trained_in_part" and e["step"] == 1}
    if len(losses) != 3 or not told: fail("losses %s, events %s" % (losses, events))
    if "norm.var" not in found: fail("no running variance among %s" % list(found))


def kernels():
    batches, *options = more
    text = open(os.path.join(os.path.dirname(trainer), "model.cu")).read()
    lean = os.path.join(os.path.dirname(trainer), "lean.h")
    step = open(lean).read() if "--lean" in options else text
    step = step[step.index("_step(Step *s)") if "--lean" in options else step.index("int train_step(Step *s)"):]
    step = step[step.index("commit: nothing above"):step.index("\n}\n")]
    names = sorted(set(re.findall(r"\b(?:LAUNCH|EPILOGUE)(?:_PLAIN|_FOURS)?\(s, (\w+),", step)) - set(re.findall(r"\b(update\w*),", step)))
    if not names: fail("no kernels behind the commit")
    found = named = 0
    for kernel in names[:12]:
        losses, events, done, _, _ = run(kernel, batches, "--steps", "4", *options, fault="garble=1,times=1000000000,poison=1,kernel=" + kernel)
        part = [e for e in events if e["event"] == "trained_in_part"]
        back = [e for e in events if e["event"] == "fell_back"]
        if len(losses) != 4: fail("%s: losses %s" % (kernel, losses))
        if not part: continue # what it left reached no gradient
        found += 1
        named += all(e["kernel"] == kernel for e in back) # the last one of a unit that has several
        if [(e["step"], e["cause"]) for e in part] != [(0, "kernel")]: fail("%s: %s" % (kernel, [(e["step"], e["cause"], e["node"]) for e in part]))
        if {(e["step"], e["guard"]) for e in back} != {(0, "finite")}: fail("%s: %s" % (kernel, back))
    if found < 0.6 * len(names[:12]): fail("NaN of %d kernels of %d reached a gradient" % (found, len(names[:12])))
    if named < 0.5 * found: fail("of %d kernels %d were named" % (found, named))
    print("%d kernels behind the commit left NaN in turn, %d of which reached a weight" % (len(names[:12]), found))


{"elements": elements, "policy": policy, "statistics": statistics, "kernels": kernels}[what]()
checks.finish()
