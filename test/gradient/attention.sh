# Attention in blocks, at sizes that fill no block: its gradients against differences of the loss, in double precision; losses and gradients
# against those of the unfused program; and that memory grows with the length of a sequence, not with its square.
. test/check.inc
. test/build.inc
python3 test/gradient/attention.py "$scratch" || exit 1
model="$scratch/model.onnx"
"$DISC_GEN" "$model" -o none --loss 'mse(last)' --freeze inverse_root --dump recognise >"$scratch/recognised" || fail "--dump recognise"
[ "$(grep -c 'is attention' "$scratch/recognised")" = 4 ] || fail "not both attentions of both programs were recognised: $(grep '^#' "$scratch/recognised")"

build attention.fp64 "$model" --loss 'mse(last)' --freeze inverse_root --precision fp64
for batch in "$scratch"/batch_*.safetensors; do
    "$built/trainer" --batch-file "$batch" --check-gradients --json >"$scratch/said" 2>&1 || fail "$(basename "$batch"): $(grep -E 'WRONG|trainer:' "$scratch/said")"
    grep '^gradients of' "$scratch/said"
done

build attention.unfused "$model" --loss 'mse(last)' --freeze inverse_root --no-fuse
unfused=$built
build attention.fused "$model" --loss 'mse(last)' --freeze inverse_root
for batch in "$scratch"/*.safetensors; do
    for program in "$built" "$unfused"; do
        "$program/trainer" --batch-file "$batch" --steps 1 --progress never --save-gradients "$scratch/$(basename "$program").gradients" \
            --log "$scratch/$(basename "$program").log" >/dev/null || fail "a step of $program"
    done
    python3 test/gradient/same.py "$scratch/attention.fused" "$scratch/attention.unfused" 1e-5 || fail "$(basename "$batch"): fused and unfused differ"
done

arena() { # PROGRAM LENGTH
    "$1/trainer" --plan --json --dim batch=2 --dim m=$2 --dim n=$2 | tail -1 | python3 -c 'import json, sys; print(json.loads(sys.stdin.read())["arena_bytes"])'
}
[ $(($(arena "$built" 2048) * 10)) -lt $(($(arena "$built" 1024) * 21)) ] || fail "twice the length takes more than twice the memory"
[ $(($(arena "$unfused" 2048) * 10)) -gt $(($(arena "$unfused" 1024) * 30)) ] || fail "unfused, scores stand in memory; here they do not"
finish
