# Batches that contradict the model, each kind of them in turn: the events, what is kept of them, and steps that are those of a run without.
. test/check.inc
. test/build.inc
python3 test/healing/models.py "$scratch" || exit 1
build healing_window "$scratch/window.onnx" --loss "mse(y)"
window=$built/trainer
build healing_narrow "$scratch/window.onnx" --loss "mse(y)" --dim time=8..12
narrow=$built/trainer
build healing_tokens "$scratch/tokens.onnx" --loss "cross_entropy(logits, axis=-1)"
tokens=$built/trainer
others=()
for name in chosen matched pyramid choice halves best computed places; do
    build healing_$name "$scratch/$name.onnx" --loss "mse(y)"
    others+=("$built/trainer")
done
check "anomalies" python3 test/healing/anomalies.py "$scratch" "$window" "$narrow" "$tokens" "${others[@]}"
finish
