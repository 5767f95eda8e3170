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
check "letters, again" python3 test/healing/replay.py "$built/trainer" "$scratch/letters.safetensors" "$scratch" normalise_3 attention bias_gelu update
# what finds late dims: on the host instead
python3 test/healing/models.py "$scratch" || exit 1
python3 - "$scratch" <<'END'
import sys
sys.path.insert(0, "test/support")
import checks, tensors as t
r = t.Random(3)
def chosen(*flags): return {"x": ("F32", [len(flags), 4], r.reals(4 * len(flags))), "flag": ("BOOL", [len(flags)], flags), "target": ("F32", [3], r.reals(3))}
def distinct(*ids): return {"ids": ("I64", [len(ids)], ids), "target": ("F32", [len(ids), 3], r.reals(3 * len(ids)))}
checks.stream(sys.argv[1] + "/chosen.safetensors", chosen(True, False, True, True), chosen(False, True))
checks.stream(sys.argv[1] + "/distinct.safetensors", distinct(7, 3, 7, 10, 0, 3), distinct(5, 5, 1))
END
for model in chosen distinct; do
    build healing_$model "$scratch/$model.onnx" --loss "mse(y)"
    check "$model" python3 test/healing/fallback.py "$built/trainer" "$scratch/$model.safetensors" "$scratch" 2
done
finish
