# The budget is exact: a limit that is too small ends with status 3 before anything runs and names the least bytes that would do; exactly
# those do, one byte less does not; the log's largest peak_bytes is that number, and what --plan says of each shape is what the step took.
. test/check.inc
. test/build.inc
figures=vary
python3 test/memory/budget.py "$scratch"

for name in letters tracks; do
    build $name models/$name.onnx
    run() { "$built/trainer" --batch-file "$scratch/$name.safetensors" --steps 6 --progress never "$@"; }
    expect "$name: 1000 bytes" 3 run --memory-limit 1000 --log "$scratch/none"
    least=$(sed -n 's/.*--memory-limit \([0-9][0-9]*\);.*/\1/p' "$scratch/said.err")
    [ -n "$least" ] || { fail "$name: no least bytes in the message"; continue; }
    [ ! -s "$scratch/none" ] || fail "$name: a step was taken though the budget is too small"
    expect "$name: exactly the least bytes" 0 run --memory-limit "$least" --log "$scratch/$name.log"
    expect "$name: one byte less" 3 run --memory-limit $((least - 1))
    expect "$name: the least bytes with a unit" 0 run --memory-limit "${least}B"
    expect "$name: no limit" 0 run --log "$scratch/$name.free"
    python3 - "$scratch/$name.log" "$scratch/$name.free" "$least" "$built/trainer" <<'END' || fail "$name: peaks"
import json, subprocess, sys
steps = [json.loads(line) for line in open(sys.argv[1])]
free = [json.loads(line) for line in open(sys.argv[2])]
assert len(steps) == 6, steps
assert max(s["peak_bytes"] for s in steps) == int(sys.argv[3]), (steps, sys.argv[3])
for s, f in zip(steps, free):
    assert s["loss"] == f["loss"] and s["peak_bytes"] <= f["peak_bytes"], (s, f)
    dims = [word for k, v in s["dims"].items() for word in ("--dim", "%s=%d" % (k, v))]
    for step, limit in (f, []), (s, ["--memory-limit", sys.argv[3]]):
        said = subprocess.run([sys.argv[4], "--plan", "--json"] + dims + limit, check=True, capture_output=True, text=True).stdout
        plan = json.loads(said.splitlines()[-1])
        assert plan["minimum_bytes"] <= plan["peak_bytes"] == step["peak_bytes"] and plan["feasible"], (plan, step)
        assert plan["live_bytes"] <= plan["arena_bytes"] and plan["state_bytes"] + plan["arena_bytes"] == plan["peak_bytes"], plan
END
done
finish
