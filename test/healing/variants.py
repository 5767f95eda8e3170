"""Variants of a step, made while it runs: swapped in only where they are right, and training never waits for a compiler.

variants.py TRAINER FOLDER ROWS_TRAINER      TRAINER's folder is this test's own, as is that of ROWS_TRAINER: a program with a lean twin,
                                             whose batch is FOLDER/tall.safetensors
"""
import os, shutil, signal, subprocess, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checks, tensors as t
from checks import fail

trainer, folder, rows_trainer = sys.argv[1:]
r = t.Random(9)


def path(name): return os.path.join(folder, name)


def batch(time): return {"x": ("F32", [2, 3, time], r.reals(6 * time)), "target": ("F32", [2, 2], r.reals(4))}


def compiler(name, text):
    with open(path(name), "w") as f: f.write("#!/bin/sh\n" + text + "\n")
    os.chmod(path(name), 0o755)
    return path(name)


def made(program=None): return os.path.join(os.path.dirname(program or trainer), "variants")


checks.stream(path("batches"), batch(10), batch(7))


def run(what, until, fault="", keep=False, after=6, program=trainer, batches="batches", options=(), **environment):
    """Until the log has `until` events of an end and `after` steps more; the events, and the losses by step."""
    if not keep: shutil.rmtree(made(program), ignore_errors=True)
    if os.path.exists(path("log")): os.remove(path("log"))
    command = [program, "--batch-file", path(batches), *options, "--steps", "100000000", "--variants", "eager", "--progress", "never", "--log", path("log"), "--lr", "1e-6"]
    p = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=dict(os.environ, DISC_FAULT="slow_copy=1000," + fault, **environment), text=True)
    deadline, seen, enough = time.time() + 120, [], 1 << 60
    while p.poll() is None and time.time() < deadline:
        time.sleep(0.02)
        seen = checks.lines(path("log"))
        ends = [x for x in seen if x.get("event") in ("variant_swapped", "variant_dropped")]
        if len(ends) >= until: enough = min(enough, ends[until - 1]["step"] + after)
        if any("loss" in x and x["step"] >= enough for x in seen): break
    p.send_signal(signal.SIGINT)
    said = p.communicate(timeout=60)[1]
    if p.returncode != 130: fail("%s: status %d: %s" % (what, p.returncode, said))
    seen = checks.lines(path("log"))
    events = checks.events(seen, "variant_")
    if len([x for x in events if x["event"] != "variant_compiling"]) < until: fail("%s: events %s" % (what, events))
    return events, checks.losses(seen), said


def same_losses(what, losses, program=trainer, batches="batches", options=()):
    """As a run that never varies."""
    subprocess.run([program, "--batch-file", path(batches), *options, "--steps", str(len(losses)), "--variants", "off", "--progress", "never", "--log", path("plain"), "--lr", "1e-6"],
                   check=True, stdout=subprocess.DEVNULL)
    if checks.losses(checks.lines(path("plain"))) != losses: fail(what + ": losses are not those of a run without variants")


events, losses, _ = run("right", 2, "variant_wins")
if sorted(x["event"] for x in events) != ["variant_compiling"] * 2 + ["variant_swapped"] * 2: fail("right: %s" % events)
if sorted(str(x["dims"]) for x in events if x["event"] == "variant_swapped") != ["{'batch': 2, 'time': 10}", "{'batch': 2, 'time': 7}"]: fail("right: dims %s" % events)
if sorted(os.listdir(made())) != sorted(x["variant"] + ".so" for x in events if x["event"] == "variant_swapped"): fail("right: files %s" % os.listdir(made()))
same_losses("right", losses)

# the lean step is a program of its own, and so are its variants, in so many blocks of rows
lean = {"program": rows_trainer, "batches": "tall.safetensors", "options": ("--row-blocks", "3", "--lean", "on")}
events, losses, _ = run("lean", 1, "variant_wins", **lean)
if [(x["event"], x["program"]) for x in events] != [("variant_compiling", "train_lean"), ("variant_swapped", "train_lean")]: fail("lean: %s" % events)
same_losses("lean", losses, **lean)
events, losses, _ = run("not lean", 1, "variant_wins", keep=True, program=rows_trainer, batches="tall.safetensors", options=("--row-blocks", "3"))
if events[-1]["event"] != "variant_swapped" or {x["program"] for x in events} != {"train"} or len(os.listdir(made(rows_trainer))) != 2: fail("not lean: %s" % events)

# the files are there: no compiler is needed
events, losses, _ = run("again", 2, "variant_wins", keep=True, CXX="/bin/false")
if [x["event"] for x in events if x["event"] != "variant_compiling"] != ["variant_swapped"] * 2: fail("again: %s" % events)
same_losses("again", losses)

# timed for what they are: either way nothing but speed changes
events, losses, _ = run("timed", 2, keep=True)
if not all(x["event"] == "variant_swapped" or "not faster" in x["detail"] for x in events if x["event"] != "variant_compiling"): fail("timed: %s" % events)
same_losses("timed", losses)

# a kernel that cannot be launched: the program's unit is made by unfused.cu, but a variant that wants that is none
failing = "kernel=bias_tanh" # any kernel of the step
events, _, said = run("cannot be launched", 2, "variant_wins,launch=1,times=1000000000," + failing, keep=True)
ends = [x for x in events if x["event"] != "variant_compiling"]
if [x["event"] for x in ends] != ["variant_dropped"] * 2 or said.count("computed unfused from now on") != 1: fail("cannot be launched: %s, said %s" % (events, said))

# only once, long after they were swapped in: the program itself goes on, with its own kernel
events, _, said = run("fails later", 3, "variant_wins,launch=1500," + failing, keep=True)
ends = [x for x in events if x["event"] != "variant_compiling"]
if [x["event"] for x in ends] != ["variant_swapped"] * 2 + ["variant_dropped"] or "failed" not in ends[2]["detail"] or "unfused" in said: fail("fails later: %s, said %s" % (events, said))

events, losses, _ = run("wrong", 2, "variant_wins,variant_wrong")
if any(x["event"] == "variant_swapped" or x["event"] == "variant_dropped" and "results" not in x["detail"] for x in events): fail("wrong: %s" % events)
same_losses("wrong", losses)

for what, why, fault, environment in (
        ("killed", "make ended with status", "", {"CXX": compiler("killed", "kill -9 $$")}),
        ("fails", "make ended with status", "", {"CXX": "/bin/false"}),
        ("hangs", "more than 1 s", "compile_seconds=1", {"CXX": compiler("hangs", "exec sleep 977")}),
        ("missing", "", "", {"PATH": "/nowhere"})):
    events, losses, said = run(what, 1, fault, **environment)
    if len(events) != 2 or events[-1]["event"] != "variant_dropped" or why not in events[-1]["detail"]: fail("%s: %s" % (what, events))
    if said.count("variant") != 1: fail("%s: said %s" % (what, said))
    if what == "hangs" and events[-1]["step"] - events[0]["step"] < 20: fail("hangs: training waited: %s" % events)
    if os.path.isdir(made()) and any(x.endswith(".so") for x in os.listdir(made())): fail("%s: left %s" % (what, os.listdir(made())))
    same_losses(what, losses)
if subprocess.run(["pgrep", "-f", "sleep 977"], stdout=subprocess.DEVNULL).returncode == 0: fail("hangs: the compiler runs on")
checks.finish()
