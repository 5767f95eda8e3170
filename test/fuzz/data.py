"""Damages data files, weights and checkpoints byte by byte; whatever is in them, the trainer ends with 0, 2, 3 or 4 and with a message.

data.py TRAINER FOLDER [RUNS [SEED]]     FOLDER as test/error/data.py fills it; a file that brings the trainer down is kept there
"""
import os, random, shutil, subprocess, sys

trainer, folder = sys.argv[1:3]
runs, seed = int((sys.argv + [400] * 4)[3]), int(sys.argv[4]) if len(sys.argv) > 4 else 1
r = random.Random(seed)
environment = dict(os.environ, ASAN_OPTIONS="exitcode=99:allocator_may_return_null=1", UBSAN_OPTIONS="print_stacktrace=1:exitcode=99", OMP_NUM_THREADS="1")


def place(name): return os.path.join(folder, name)


def damage(data):
    data, how = bytearray(data), r.randrange(6)
    for _ in range(r.choice([1, 1, 2, 4, 9])):
        if not data: break
        # most of what can go wrong stands in the header; a zip archive has its own at the end
        at = r.choice([r.randrange(min(len(data), 700)), r.randrange(len(data)), len(data) - 1 - r.randrange(min(len(data), 200))])
        if how == 0: data[at] = r.randrange(256)
        elif how == 1: data[at] ^= 1 << r.randrange(8)
        elif how == 2: data[at] = r.choice([0, 1, 255, 127, 128, 0x30 + r.randrange(10)])
        elif how == 3: del data[at:at + r.randrange(1, 9)]
        elif how == 4: data[at:at] = bytes(r.choice(b'0123456789-e.,[]{}":') for _ in range(r.randrange(1, 6)))
        else: del data[at:]
    return bytes(data)


def call(*arguments): return subprocess.run([trainer, "--progress", "never", *arguments], capture_output=True, text=True, errors="replace", env=environment, timeout=120)


first = call("--data", place("good.npz"), "--steps", "4", "--checkpoint", place("whole"), "--save-weights", place("weights"))
if first.returncode: sys.exit(first.stderr)
os.makedirs(place("damaged"), exist_ok=True)
damaged = place("damaged/file")
kinds = {
    "good.npz": ["--data", damaged], "deflated.npz": ["--data", damaged], "good.safetensors": ["--data", damaged], "batches.safetensors": ["--batch-file", damaged],
    "target.npy": ["--data", "trajectory=%s,target=%s" % (place("trajectory.npy"), damaged)], "weights": ["--data", place("good.npz"), "--load-weights", damaged],
    "whole/checkpoint.safetensors": ["--data", place("good.npz"), "--checkpoint", place("damaged"), "--resume"],
}
failures = 0
for k in range(runs):
    kind = r.choice(sorted(kinds))
    resumes = kind.startswith("whole")
    with open(place(kind), "rb") as f: data = damage(f.read())
    with open(place("damaged/checkpoint.safetensors") if resumes else damaged, "wb") as f: f.write(data)
    ended = call("--steps", "9" if resumes else "3", *kinds[kind])
    if ended.returncode in (0, 2, 3, 4) and bool(ended.returncode) == bool([x for x in ended.stderr.splitlines() if x.startswith("trainer: ")]): continue
    failures += 1
    kept = place("brings_down_%d_%d" % (seed, k))
    with open(kept, "wb") as f: f.write(data)
    print("%s, damaged (%s): status %d\n%s" % (kind, kept, ended.returncode, ended.stderr[:2000]))
print("%d runs from seed %d, %d failures" % (runs, seed, failures))
sys.exit(bool(failures))
