"""Late dims that do not fit at their bounds are planned again in the middle of the step.  late.py TRAINER FOLDER

Between the least that does at their bounds and less: the same bits, within the budget, told in the log.  A batch whose rows all go to one
expert does not fit there: it is set aside before a weight has changed.  Less than what any rows would take ends with status 3."""
import json, os, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

trainer, folder = sys.argv[1:3]
failures = []


def run(name, *options, status=0):
    files = ["--log", folder + "/" + name + ".log", "--save-weights", folder + "/" + name + ".weights"]
    command = [trainer, "--batch-file", folder + "/batches.safetensors", "--steps", "3", "--progress", "never", "--max-skipped", "100%"] + files + list(options)
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, DISC_POISON="1"))
    if done.returncode != status: failures.append("%s: exit status %d, wanted %d: %s" % (name, done.returncode, status, done.stderr))
    if status or done.returncode: return [], [], None
    lines = [json.loads(line) for line in open(folder + "/" + name + ".log")]
    return [x for x in lines if "loss" in x], [x for x in lines if "event" in x], open(folder + "/" + name + ".weights", "rb").read()


def plan(n, *options):
    said = subprocess.run([trainer, "--plan", "--json", "--dim", "n=%d" % n] + list(options), check=True, capture_output=True, text=True).stdout
    return json.loads(said.splitlines()[-1])


losses = lambda steps: {x["step"]: x["loss"] for x in steps}
of = lambda events, name: [e["step"] for e in events if e["event"] == name]
free, events, weights = run("free")
_, _, initial = run("initial", "--steps", "0")
if events or len(free) != 3: failures.append("without a budget: %r" % events)
least = plan(600)["minimum_bytes"]
exact, events, _ = run("exact", "--memory-limit", str(least))
if events or losses(exact) != losses(free): failures.append("the least at the bounds: %r" % events)

# only the batches that are shared out evenly, for what follows: their bits without the one that is set aside
given, _ = t.read(folder + "/batches.safetensors")
even = {k.replace("step2", "step1"): (d, s, t.numbers((d, s, raw))) for k, (d, s, raw) in given.items() if not k.startswith("step1")}
os.rename(folder + "/batches.safetensors", folder + "/all.safetensors")
t.safetensors(folder + "/batches.safetensors", even)
wanted, _, wanted_weights = run("even", "--steps", "2")
os.rename(folder + "/all.safetensors", folder + "/batches.safetensors")

planned = aside = refused = 0
for percent in range(99, 30, -3):
    limit = least * percent // 100
    begun = subprocess.run([trainer, "--batch-file", folder + "/batches.safetensors", "--steps", "1", "--progress", "never", "--max-skipped", "100%", "--memory-limit", str(limit)], capture_output=True, text=True)
    if begun.returncode == 3:
        refused += 1
        continue
    if refused: failures.append("%d %%: fits, where more did not" % percent)
    steps, events, after = run("late", "--memory-limit", str(limit))
    skipped, again = of(events, "set_aside"), of(events, "planned_late")
    if any(s["peak_bytes"] > limit for s in steps): failures.append("%d %%: passed" % percent)
    if not skipped and (losses(steps) != losses(free) or after != weights): failures.append("%d %%: other bits" % percent)
    if skipped == [1] and ([x["loss"] for x in steps] != [x["loss"] for x in wanted] or after != wanted_weights): failures.append("%d %%: other bits beside what was set aside" % percent)
    if any(e["event"] == "set_aside" and e["guard"] != "late_dims_fit" for e in events): failures.append("%d %%: %r" % (percent, events))
    if len(skipped) == 3 and (steps or after != initial): failures.append("%d %%: weights have changed though all was set aside" % percent)
    planned += 0 in again
    aside += skipped == [1]
    print("%d %%: planned again at %r, set aside %r" % (percent, again, skipped))
if not planned or not aside or not refused: failures.append("planned again %d times, set aside %d, refused %d" % (planned, aside, refused))
for line in failures: print("FAILED:", line)
sys.exit(bool(failures))
