# Nothing is allocated while a step runs, and the device's high-water mark is peak_bytes, to the byte (test/memory/step.c).
[ -z "${SANITIZE-}" ] || { echo "skipped: it counts what is allocated by a malloc of its own, and the sanitizers have theirs"; exit 77; }
. test/check.inc
. test/build.inc
python3 test/memory/budget.py "$scratch"
for name in letters tracks; do
    build $name models/$name.onnx
    link_with_built test/memory/step.c "$scratch/step" || { fail "$name: does not link"; continue; }
    check "$name" "$scratch/step" "$scratch/$name.safetensors" "$built/weights.safetensors"
done
finish
