# The gradients of whole programs, in double precision, against differences of the loss: the project's models, and one with batch norm and
# dropout in training.  Then that a wrong gradient is found, and that the check leaves no trace.
. test/check.inc
. test/build.inc
python3 test/gradient/batches.py "$scratch" && python3 test/gradient/model.py "$scratch" || exit 1

right() { # NAME BATCH
    "$built/trainer" --batch-file "$2" --check-gradients --json >"$scratch/$1.said" 2>&1 || fail "$1: $(grep -E 'WRONG|trainer:' "$scratch/$1.said")"
    grep '^gradients of' "$scratch/$1.said" | sed "s/^/$1: /"
    tail -1 "$scratch/$1.said" | python3 -c '
import json, sys
said = json.load(sys.stdin)
assert said["wrong"] == 0 and said["worst"] <= said["tolerance"] == 1e-6
assert said["checked"] > 0 and said["kinks"] + said["rounding"] < said["checked"] / 4, said
assert all(t["checked"] for t in said["tensors"])' || fail "$1: its last line"
}

for name in flow shapes tracks letters; do
    build $name.fp64 models/$name.onnx --precision fp64 $([ $name = letters ] && echo --loss next_token\(logits\))
    right $name "$scratch/$name.safetensors"
done
build dropout.fp64 "$scratch/model.onnx" --precision fp64
right dropout "$scratch/batch.safetensors"

# training after a check is training without one
"$built/trainer" --batch-file "$scratch/batch.safetensors" --check-gradients >"$scratch/again.said" || fail "a second check"
check "the same is said twice" diff "$scratch/again.said" <(head -n -1 "$scratch/dropout.said")

# a loss that is 1.001 times what its gradients say
cp -rp "$built" "$scratch/wrong"
sed -i 's/s->loss = (double)value;/s->loss = 1.001 * (double)value;/' "$scratch/wrong/runtime/controller/step.h"
check "make" make -s -C "$scratch/wrong" DEVICE=host >"$scratch/said.make"
expect "a gradient that is wrong" 1 "$scratch/wrong/trainer" --batch-file "$scratch/batch.safetensors" --check-gradients
expect "no batch" 2 "$built/trainer" --check-gradients
expect "with --resume" 2 "$built/trainer" --batch-file "$scratch/batch.safetensors" --check-gradients --resume --checkpoint "$scratch/none"
finish
