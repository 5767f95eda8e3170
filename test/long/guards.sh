# test/healing/guards.sh for the project's other models and the zoo.
. test/check.inc
. test/build.inc
. test/healing/guards.inc
python3 test/healing/models.py "$scratch" || exit 1
python3 test/healing/ranges.py write "$scratch" || exit 1
guarded shapes models/shapes.onnx
guarded letters models/letters.onnx
guarded tracks models/tracks.onnx --dim time=7..20 --dim batch=2..6
for name in window chosen computed matched choice halves; do guarded $name "$scratch/$name.onnx" --loss "mse(y)"; done
guarded labels "$scratch/labels.onnx"
guarded next "$scratch/next.onnx" --loss "next_token(logits)"
for name in $zoo_models; do
    zoo=../shared/zoo/$name
    [ -d "$zoo" ] || continue
    guarded "$name" "$zoo/model.onnx" --loss "$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["loss"])' "$zoo/golden.json")"
done
[ $failures = 0 ]
