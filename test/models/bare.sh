# disc-gen MODEL -o DIR, no option: a trainer, and the loss that was guessed, said with its reason.
scratch=$TEST_OUT/models.bare
rm -rf "$scratch" && mkdir -p "$scratch"
failures=0
for model in models/*.onnx ../shared/zoo/*/model.onnx ../shared/zoo/as_exported/*.onnx; do
    [ -f "$model" ] || continue
    "$DISC_GEN" "$model" -o "$scratch/out" >"$scratch/said" 2>"$scratch/noticed" || { echo "FAILED: $model: exit status $?"; failures=1; }
    for file in model.cu controller.c model.h main.c Makefile weights.safetensors trainable.txt; do
        [ -s "$scratch/out/$file" ] || { echo "FAILED: $model: no $file"; failures=1; }
    done
    grep '^loss: .*, guessed: ' "$scratch/said" | sed "s|^|$model: |"
    grep -q '^loss: .*, guessed: ' "$scratch/said" && grep -q 'say it with --loss' "$scratch/said" ||
        { echo "FAILED: $model: the loss that was guessed is not said"; failures=1; }
    rm -rf "$scratch/out"
done
exit $failures
