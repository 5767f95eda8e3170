"""A run that is interrupted and resumed must be the run that was not, bit for bit: weights, optimizer states and the log.

resume.py TRAINER DATA FOLDER      a step is slowed down so that signals find one; every wait is for a line of the log
"""
import os, shutil, signal, subprocess, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import checks
from checks import fail

trainer, data, folder = sys.argv[1:4]
STEPS = 24
COMMON = [trainer, "--batch-size", "3", "--steps", str(STEPS), "--progress", "never", "--seed", "5"]
SLOW = dict(os.environ, DISC_FAULT="slow_copy=4000")


def place(name): return os.path.join(folder, name)


def arguments(name, *more):
    which = [] if "--data" in more else ["--data", data]
    return COMMON + which + ["--checkpoint", place(name), "--log", place(name + ".log"), *more]


def lines(name): return checks.lines(place(name + ".log"))


def steps(name): return {x["step"]: (x["loss"], x["peak_bytes"], str(x["dims"])) for x in lines(name) if "loss" in x}


def checkpoint(name):
    with open(place(name) + "/checkpoint.safetensors", "rb") as f: return f.read()


def run(name, *more, **options):
    r = subprocess.run(arguments(name, *more), capture_output=True, text=True, timeout=120, **options)
    if r.returncode: fail("%s %s: status %d: %s" % (name, " ".join(more), r.returncode, r.stderr))


def start(name, *more): return subprocess.Popen(arguments(name, *more), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=SLOW, text=True)


def wait(name, p, at):
    """Until the log has `at` steps."""
    deadline = time.time() + 60
    while len(steps(name)) < at and p.poll() is None and time.time() < deadline: time.sleep(0.002)


def interrupt(name, number, at, *more):
    """Starts a run, sends the signal once the log has `at` steps, returns the exit status as a shell would see it."""
    p = start(name, *more)
    wait(name, p, at)
    p.send_signal(number)
    said = p.communicate(timeout=60)[1]
    return (p.returncode if p.returncode >= 0 else 128 - p.returncode), said


def same(name, what):
    if checkpoint(name) != checkpoint("whole"): fail(what + ": the last checkpoint is not that of the run without a break")
    found, wanted = steps(name), steps("whole")
    if found != wanted: fail("%s: the log differs at steps %s" % (what, sorted(k for k in set(found) | set(wanted) if found.get(k) != wanted.get(k))[:5]))
    order = [x["step"] for x in lines(name) if "loss" in x]
    if order != sorted(set(order)): fail(what + ": the log has steps twice or out of order")


run("whole")
run("again")
same("again", "the same run twice")

for number, wanted in (signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129):
    name = number.name
    status, said = interrupt(name, number, 9)
    taken = len(steps(name))
    if status != wanted: fail("%s: status %d, wanted %d: %s" % (name, status, wanted, said))
    if not 9 <= taken < STEPS: fail("%s after %d steps" % (name, taken))
    if "checkpoint is written" not in said or "signal %d" % number not in said: fail("%s said: %s" % (name, said))
    if [x["event"] for x in checks.events(lines(name))] != ["signal", "summary"]: fail(name + ": the log has no line of the signal")
    run(name, "--resume")
    same(name, name)

name = "kill"
status, said = interrupt(name, signal.SIGKILL, 13, "--checkpoint-every", "5")
if status != 137: fail("kill -9: status %d" % status)
run(name, "--resume")
same(name, "kill -9")
if [f for f in os.listdir(place(name)) if f != "checkpoint.safetensors"]: fail("kill -9: files are left: %s" % os.listdir(place(name)))

# more signals while the first one is heard
name = "impatient"
p = start(name)
wait(name, p, 4)
for number in signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT: p.send_signal(number)
said = p.communicate(timeout=60)[1]
if p.returncode not in (129, 130, 143) or "checkpoint is written" not in said: fail("three signals: status %d: %s" % (p.returncode, said))
run(name, "--resume")
same(name, "three signals")

# twice interrupted, without a step between; a folder that is resumed when it is done
name = "twice"
interrupt(name, signal.SIGINT, 4)
interrupt(name, signal.SIGTERM, 4, "--resume")
run(name, "--resume")
same(name, "interrupted twice")
run(name, "--resume")
same(name, "resumed at its end")

# the signal in the last step: the checkpoint is written all the same
name = "last"
status, said = interrupt(name, signal.SIGTERM, STEPS - 1)
if status not in (143, 0): fail("a signal in the last step: status %d: %s" % (status, said))
if status: run(name, "--resume")
same(name, "a signal in the last step")

# a checkpoint in the middle of which the run dies is as if it had not been begun: what is resumed is the one before
name = "partial"
interrupt(name, signal.SIGINT, 5)
with open(place(name) + "/checkpoint.safetensors.partial.1", "wb") as f: f.write(b"\0" * 100)
run(name, "--resume")
same(name, "a half checkpoint beside")
if os.path.exists(place(name) + "/checkpoint.safetensors.partial.1"): fail("a half checkpoint is still there")

# two runs in one folder: the second one is refused, the first one does not notice
name = "both"
first = start(name)
wait(name, first, 5)
for more in [], ["--resume"]:
    second = subprocess.run([*COMMON, "--data", data, "--checkpoint", place(name), *more], capture_output=True, text=True, timeout=60)
    if second.returncode != 2 or "another run writes there" not in second.stderr: fail("a second run %s: status %d: %s" % (more, second.returncode, second.stderr))
if first.communicate(timeout=60) and first.returncode: fail("the first of two runs: status %d" % first.returncode)
same(name, "the first of two runs")

# a run that begins anew where another one left its checkpoint: that one is kept
name = "anew"
interrupt(name, signal.SIGINT, 5)
left = checkpoint(name)
run(name)
same(name, "begun anew")
with open(place(name) + "/checkpoint.before.safetensors", "rb") as f:
    if f.read() != left: fail("begun anew: the checkpoint of the run before is not kept")

# data that is cut short while it is read: a checkpoint of what was done, and no bus error
name = "short"
whole_data = os.path.splitext(data)[0] + ".safetensors"
mine = place("short.safetensors")
shutil.copy(whole_data, mine)
first = start(name, "--data", mine)
wait(name, first, 5)
os.truncate(mine, 100)
said = first.communicate(timeout=60)[1]
if first.returncode != 2 or "cut short while it was in use" not in said: fail("data cut short: status %d: %s" % (first.returncode, said))
shutil.copy(whole_data, mine)
run(name, "--resume", "--data", mine)
same(name, "data cut short")

# a checkpoint of a model that has since been renamed
os.makedirs(place("renamed"), exist_ok=True)
with open(place("renamed") + "/checkpoint.safetensors", "wb") as f: f.write(checkpoint("whole").replace(b'"model":"tracks"', b'"model":"tracts"'))
r = subprocess.run(arguments("renamed", "--resume"), capture_output=True, text=True, timeout=60)
if r.returncode != 2 or 'the model "tracts", and this one is "tracks"' not in r.stderr: fail("a renamed model: status %d: %s" % (r.returncode, r.stderr))

# checkpoints that are none
whole = checkpoint("whole")
for what, data_of_it in ("cut", whole[:-100]), ("empty", b""), ("no header", b"\xff" * len(whole)), ("another", whole.replace(b'"step":"', b'"stop":"')):
    os.makedirs(place("bad"), exist_ok=True)
    with open(place("bad") + "/checkpoint.safetensors", "wb") as f: f.write(data_of_it)
    r = subprocess.run(arguments("bad", "--resume"), capture_output=True, text=True, timeout=60)
    if r.returncode != 2 or "checkpoint.safetensors" not in r.stderr: fail("a checkpoint that is %s: status %d: %s" % (what, r.returncode, r.stderr))
    if checkpoint("bad") != data_of_it: fail("a checkpoint that is %s was overwritten" % what)
checks.finish()
