# A loss that is a number and gradients that are none: no weight, moment or running statistic becomes one that is not, each such step is told
# and counted, and its cause is found, be it a kernel or the numbers (finite.py).
. test/check.inc
. test/build.inc
python3 test/healing/models.py "$scratch" || exit 1
for optimizer in sgd nesterov adamw; do # the rules of all: test/unit/optimizer.c
    build healing_roots_$optimizer "$scratch/roots.onnx" --loss "mse(y)" --train "scale|bias" --optimizer $optimizer
    check "$optimizer" python3 test/healing/finite.py elements "$scratch" "$built/trainer"
done
for options in "--no-fuse" "--precision bf16" "--precision fp64"; do
    build "healing_roots${options// /}" "$scratch/roots.onnx" --loss "mse(y)" --train "scale|bias" $options
    check "$options" python3 test/healing/finite.py elements "$scratch" "$built/trainer"
done
build healing_roots_adamw "$scratch/roots.onnx" --loss "mse(y)" --train "scale|bias" --optimizer adamw
check "what is done about it" python3 test/healing/finite.py policy "$scratch" "$built/trainer"
build healing_spread "$scratch/spread.onnx" --loss "mse(y)" --batch-norm train
check "running statistics" python3 test/healing/finite.py statistics "$scratch" "$built/trainer"
build tracks models/tracks.onnx
python3 test/models/batches.py "$scratch/tracks.safetensors" trajectory=reals:2,5,6 target=reals:2,5,6 / trajectory=reals:3,4,6 target=reals:3,4,6
check "a kernel's NaN" python3 test/healing/finite.py kernels "$scratch" "$built/trainer" "$scratch/tracks.safetensors"
build letters models/letters.onnx
python3 test/models/batches.py "$scratch/letters.safetensors" input_ids=ints20:4,9 / input_ids=ints20:3,7
check "a kernel's NaN, in blocks of rows" python3 test/healing/finite.py kernels "$scratch" "$built/trainer" "$scratch/letters.safetensors" --row-blocks 2 --lean on
finish
