"""What is given up and made again changes nothing: losses and gradients under any budget are, bit for bit, those without one.

remat.py TRAINER FOLDER BATCHES.safetensors SEED: draws a shape from the batches, repeats it a few times along the batch, and
runs it without a limit, at the least bytes that --plan names, at budgets in between, and one byte below the least."""
import json, os, subprocess, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

trainer, folder, batches, seed = sys.argv[1:5]
random = t.Random(int(seed))
failures = 0


def batch_of(times, step):
    given, _ = t.read(batches)
    out = {}
    for name, (dtype, shape, raw) in given.items():
        if not name.startswith("step%d." % step) or name.count(".") != 1: continue
        values = t.numbers((dtype, shape, raw))
        if times and shape: out[name[len("step%d." % step):]] = (dtype, [shape[0] * times] + shape[1:], list(values) * times)
    return out


def run(name, limit=None, **more):
    files = ["--save-gradients", folder + "/%s.gradients" % name, "--save-weights", folder + "/%s.weights" % name, "--log", folder + "/%s.log" % name]
    command = [trainer, "--batch-file", folder + "/batch.safetensors", "--steps", "2", "--progress", "never"] + files
    if limit: command += ["--memory-limit", str(limit)]
    for key, value in more.items(): command += ["--" + key, str(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    steps = [json.loads(line) for line in open(folder + "/%s.log" % name)] if done.returncode == 0 else []
    return done.returncode, [s for s in steps if "loss" in s], done.stderr


def bytes_of(name):
    return [open(folder + "/%s.%s" % (name, kind), "rb").read() for kind in ("gradients", "weights")]


def fail(what):
    global failures
    failures += 1
    print("FAILED (seed %s):" % seed, what)


def plan(dims, limit=None):
    command = [trainer, "--plan", "--json"] + (["--memory-limit", str(limit)] if limit else [])
    for name, n in dims.items(): command += ["--dim", "%s=%d" % (name, n)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])


tensors = batch_of(1 + random.below(6), random.below(3))
t.safetensors(folder + "/batch.safetensors", {"step%d.%s" % (k, n): v for k in range(2) for n, v in tensors.items()})
status, free, said = run("free")
if status: sys.exit("without a limit: exit status %d: %s" % (status, said))
dims = free[0]["dims"]
full = plan(dims)
least, most = full["minimum_bytes"], full["peak_bytes"]
if most != free[0]["peak_bytes"]: fail("--plan says %d, the step took %d" % (most, free[0]["peak_bytes"]))
wanted = bytes_of("free")
again, shares = 0, []
for limit in sorted({most, least} | {least + random.below(most - least + 1) for _ in range(4)}):
    status, steps, said = run("limited", limit)
    if status:
        fail("limit %d: exit status %d: %s" % (limit, status, said))
        continue
    planned = plan(dims, limit)
    shares.append((limit, planned["recompute_share"], steps[0]["recomputed"]))
    again = max(again, steps[0]["recomputed"])
    if any(s["peak_bytes"] > limit or s["peak_bytes"] != planned["peak_bytes"] for s in steps): fail("limit %d: peak %s, planned %s" % (limit, steps, planned["peak_bytes"]))
    if [s["loss"] for s in steps] != [s["loss"] for s in free]: fail("limit %d: losses differ" % limit)
    if bytes_of("limited") != wanted: fail("limit %d: gradients or weights differ" % limit)
    if not planned["feasible"]: fail("limit %d: --plan says that it does not fit" % limit)
    if planned["minimum_bytes"] != least: fail("limit %d: another minimum" % limit)
for (a, share_a, _), (b, share_b, _) in zip(shares, shares[1:]):
    if share_b > share_a: fail("%d bytes recompute %g, %d bytes %g" % (a, share_a, b, share_b))
status, _, said = run("none", least - 1)
if status != 3 or str(least) not in said: fail("one byte below the least: exit status %d: %s" % (status, said))
status, _, said = run("off", least, recompute="off")
if status != 3 and least < most: fail("--recompute off at the least bytes: exit status %d" % status)
print("%s: arena %d down to %d, at most %d launches again" % (dims, full["arena_bytes"], least - full["state_bytes"], again))
sys.exit(failures != 0)
