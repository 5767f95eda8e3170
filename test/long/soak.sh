# 100,000 batches of random shapes with one in a hundred wrong, on models/tracks.onnx and models/flow.onnx (test/healing/soak.py).
. test/check.inc
. test/build.inc
for name in tracks flow; do
    build $name models/$name.onnx
    check "$name" python3 test/healing/soak.py "$built/trainer" $name 100000 "$scratch"
done
finish
