# Damaged data files, weights and checkpoints (data.py).  SANITIZE=1 builds the trainer with sanitizers first.
. test/check.inc
. test/build.inc
python3 test/error/data.py "$scratch" || exit 1
build tracks models/tracks.onnx
trainer=$built/trainer
if [ "${SANITIZE-}" = 1 ]; then
    cp -r "$built" "$scratch/sanitized"
    make -s -j2 -C "$scratch/sanitized" DEVICE=host SANITIZE=1 || exit 1
    trainer=$scratch/sanitized/trainer
fi
check "damaged files" python3 test/fuzz/data.py "$trainer" "$scratch" "${RUNS-400}" "${SEED-1}"
finish
