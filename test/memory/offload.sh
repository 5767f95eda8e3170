# What is copied to the host and back changes no bit: losses, gradients and weights are those without a budget, on the stand-in that
# copies as late as it may (runtime/device/copies_host.cpp).  Rates come from a file in which copies cost next to nothing, so that plans
# use them; without one they are measured, kept, and read again.
. test/check.inc
. test/build.inc
python3 - "$scratch/batches.safetensors" <<'END'
import sys
sys.path.insert(0, "test/support")
import tensors as t

random = t.Random(5)
shapes = [(16, 48), (9, 60), (20, 33)]
t.safetensors(sys.argv[1], {"step%d.input_ids" % k: ("I64", list(s), random.ints(s[0] * s[1], 128)) for k, s in enumerate(shapes)})
END
echo '{"device":"any","flops":1e9,"moved":1e9,"copied":1e12}' >"$scratch/rates.json"
echo '{"flops":0}' >"$scratch/wrong.json"
build letters models/letters.onnx
train() { # NAME options
    local run=$scratch/$1
    shift
    DISC_POISON=1 "$built/trainer" --batch-file "$scratch/batches.safetensors" --steps 3 --progress never --log "$run.log" \
        --save-gradients "$run.gradients" --save-weights "$run.weights" "$@" >/dev/null || fail "training $*"
}
losses() { sed 's/.*"loss":\([^,]*\),.*/\1/' "$1"; }
train plain
most=$(grep -o '"peak_bytes":[0-9]*' "$scratch/plain.log" | cut -d: -f2 | sort -n | tail -1)
for tenths in 9 8 7; do
    train $tenths --memory-limit $((most * tenths / 10)) --offload on --calibration "$scratch/rates.json"
    for file in gradients weights; do cmp "$scratch/plain.$file" "$scratch/$tenths.$file" || fail "at $tenths tenths $file differ"; done
    [ "$(losses "$scratch/plain.log")" = "$(losses "$scratch/$tenths.log")" ] || fail "at $tenths tenths losses differ"
    grep -q '"offloaded":[1-9]' "$scratch/$tenths.log" || fail "at $tenths tenths nothing was offloaded"
done
rm -f "$built/calibration.json"
train measured --memory-limit "$most" --offload on
[ -s "$built/calibration.json" ] || fail "no calibration.json was kept"
before=$(cksum <"$built/calibration.json")
train again --memory-limit "$most" --offload on
[ "$before" = "$(cksum <"$built/calibration.json")" ] || fail "calibration.json was made again"

# the same rates, the same plans, and those that training takes; other rates, other plans
plan() { # limit options
    "$built/trainer" --plan --json --offload on --dim batch=16 --dim seq=48 --memory-limit "$@"
}
limit=$((most * 7 / 10))
for rates in "$built/calibration.json" "$scratch/rates.json"; do
    name=$(basename "$rates")
    plan $limit --calibration "$rates" >"$scratch/$name.first" && plan $limit --calibration "$rates" >"$scratch/$name.second" || fail "--plan with $name"
    cmp "$scratch/$name.first" "$scratch/$name.second" || fail "one calibration, two plans: $name"
    train taken --memory-limit $limit --offload on --calibration "$rates"
    for pair in peak_bytes:peak_bytes offloaded:offload_bytes; do
        taken=$(head -1 "$scratch/taken.log" | grep -o "\"${pair%:*}\":[0-9]*" | cut -d: -f2)
        [ "$taken" = "$(grep -o "\"${pair#*:}\":[0-9]*" "$scratch/$name.first" | cut -d: -f2)" ] || fail "$name: the step took ${pair%:*} $taken, not as planned"
    done
done
plan $limit | cmp - "$scratch/calibration.json.first" || fail "calibration.json beside the program is not what is planned with"
sed 's/"copied":[^,}]*/"copied":1/' "$scratch/rates.json" >"$scratch/slow.json"
plan $limit --calibration "$scratch/slow.json" | cmp -s - "$scratch/rates.json.first" && fail "copies that take for ever are planned as those that cost nothing"
rm -f "$built/calibration.json"
expect "rates that are none" 2 "$built/trainer" --plan --offload on --calibration "$scratch/wrong.json"
finish
