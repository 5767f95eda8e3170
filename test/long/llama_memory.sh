# Memory of the paper's model, llama2_1b: AdamW, float32, sequences of 700, nothing copied to the host.  The table of docs/memory.md, held to what is
# wanted of it.
. test/check.inc
. test/build.inc
model=../shared/zoo/architectures/llama2_1b.onnx
[ -e $model ] || { echo "skipped: $model is not there"; exit 77; }
build llama2_1b $model --init 'normal(0.02)'
python3 - "$built/trainer" <<'END' || fail "more memory or more operations than wanted"
import json, subprocess, sys

GIB = 2.0 ** 30
plans = {}


def plan(batch, limit=None):
    command = [sys.argv[1], "--plan", "--json", "--offload", "off", "--dim", "batch=%d" % batch, "--dim", "seq=700"] + (["--memory-limit", limit] if limit else [])
    if (batch, limit) not in plans: plans[batch, limit] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    return plans[batch, limit]


def free(batch):
    p = plan(batch)
    return float("inf") if p["recompute_share"] else p["peak_bytes"] / GIB


def share(batch, limit):
    p = plan(batch, limit)
    return p["recompute_share"] if p["feasible"] else float("inf")


rows = [("batch 18, nothing replayed, GiB", free(18), 24), ("batch 18 in 20 GiB, share replayed", share(18, "20GiB"), 0.06),
        ("batch 18, the least, GiB", plan(18)["minimum_bytes"] / GIB, 15), ("batch 64, the least, GiB", plan(64)["minimum_bytes"] / GIB, 21),
        ("batch 64 in 26 GiB, share replayed", share(64, "26GiB"), 0.18), ("batch 32, nothing replayed, GiB", free(32), 33)]
for what, found, wanted in rows: print("%-36s %8.3f  wanted at most %g%s" % (what, found, wanted, "" if found <= wanted else "  FAILED"))
sys.exit(any(found > wanted for _, found, wanted in rows))
END
finish
