# Random numbers in the bodies of loops: others in each iteration, in one loop within another too; the same when the runner runs again.
. test/build.inc
out=$TEST_OUT/models.drawn_in_loops
mkdir -p "$out"
python3 test/models/drawn_in_loops.py model "$out" && build drawn_in_loops "$out/model.onnx" --inference || exit 1
"$built/runner" --inputs "$out/inputs.safetensors" --outputs "$out/first.safetensors" || exit 1
"$built/runner" --inputs "$out/inputs.safetensors" --outputs "$out/again.safetensors" || exit 1
cmp "$out/first.safetensors" "$out/again.safetensors" || exit 1
exec python3 test/models/drawn_in_loops.py check "$out"
