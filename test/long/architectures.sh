# The plan of a step of GPT-2 and of a Llama of a billion weights: within a second, without weights.
. test/build.inc
failures=0
for name in gpt2_124m llama2_1b; do
    model=../shared/zoo/architectures/$name.onnx
    [ -f "$model" ] || { echo "skipped: $model is not there"; exit 77; }
    build architecture_$name "$model" --init "normal(0.02)"
    rm -f "$built/weights.safetensors"
    took=$(python3 test/scale/measure.py 1 500 "$built/trainer" --plan --json --dim batch=18 --dim seq=700) || failures=1
    echo "$name: plan in $took s"
    "$built/trainer" --plan --json --dim batch=18 --dim seq=700 | python3 -c '
import json, sys
plan = json.load(sys.stdin)
print(plan["peak_bytes"], "bytes,", plan["kernels"], "kernels")
assert plan["feasible"] and plan["dims"] == {"batch": 18, "seq": 700} and plan["peak_bytes"] >= plan["arena_bytes"] + plan["state_bytes"]
' || failures=1
done
exit $failures
