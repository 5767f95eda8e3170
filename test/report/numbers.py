"""Holds a report.html against the trainer's own plans: python3 test/report/numbers.py TRAINER report.html NAME=N,NAME=N …

Each argument: dims of one comparison.  Without a limit the numbers must be equal; within a limit the trainer, which starts from the
plans that the page shows, must do at least as well as the page says.
"""
import json, subprocess, sys

PACKING = 1.15 # offsets may cost as much
trainer, page, *choices = sys.argv[1:]


def plan(program, dims, *more):
    out = subprocess.run([trainer, "--plan", "--json", *program, *sum((["--dim", d] for d in dims), []), *more], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def computed(program, dims):
    return json.loads(subprocess.run(["node", "test/report/evaluate.js", page, "program=" + program, *dims], capture_output=True, text=True, check=True).stdout)


failures = compared = 0
for choice in choices:
    dims = [d for d in choice.split(",") if d]
    for program, option in (("train", []), ("evaluate", ["--evaluate"])):
        theirs, ours = plan(option, dims), computed(program, dims)
        for key in ("dims", "live_bytes", "state_bytes", "bytes_moved", "least_bytes_moved", "kernels", "blocks"):
            compared += 1
            if theirs[key] != ours[key]:
                print("FAILED: %s, %s, %s: the trainer has %s, the page %s" % (page, program, choice, theirs[key], ours[key]))
                failures = 1
        assert not ours["too_large"]
    rungs = computed("train", dims)["rungs"]
    for rung in rungs[:: max(1, len(rungs) // 3)]:
        within = plan([], dims, "--memory-limit", str(theirs_state := plan([], dims)["state_bytes"] + int(rung["live"] * PACKING)))
        compared += 1
        if not within["feasible"] or (rung["doublings"] == 0 and within["recompute_share"] > rung["share"] + 1e-9):
            print("FAILED: %s, %s: the page says that %d bytes alive take a share of %g, the trainer in %d: %s" % (
                page, choice, rung["live"], rung["share"], theirs_state, within))
            failures = 1
print("%s: %d numbers compared" % (page, compared))
sys.exit(failures)
