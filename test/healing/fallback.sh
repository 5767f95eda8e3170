# Kernels that cannot be launched, and kernels that leave garbage: their units are made operation by operation (fallback.py).  SEED: of the
# kernels that are drawn.
. test/check.inc
. test/build.inc
batches() { python3 test/models/batches.py "$scratch/$1.safetensors" "${@:2}"; }
build tracks models/tracks.onnx
batches tracks trajectory=reals:2,5,6 target=reals:2,5,6 / trajectory=reals:3,4,6 target=reals:3,4,6
check "tracks" python3 test/healing/fallback.py "$built/trainer" "$scratch/tracks.safetensors" "$scratch" 3 12 "${SEED:-1}"
build shapes models/shapes.onnx
batches shapes image=reals:2,1,8,9 target=ints4:2 / image=reals:3,1,7,7 target=ints4:3
check "shapes" python3 test/healing/fallback.py "$built/trainer" "$scratch/shapes.safetensors" "$scratch" 2 12 "${SEED:-1}"
build letters models/letters.onnx
batches letters input_ids=ints20:2,9 / input_ids=ints20:3,7
check "letters" python3 test/healing/fallback.py "$built/trainer" "$scratch/letters.safetensors" "$scratch" 2 12 "${SEED:-1}"
batches letters input_ids=ints20:8,60 / input_ids=ints20:6,50
check "letters, again" python3 test/healing/replay.py "$built/trainer" "$scratch/letters.safetensors" "$scratch" norm_3 attention erf_add_mul update
finish
