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
build healing_chosen "$scratch/chosen.onnx" --loss "mse(y)"
chosen=$built/trainer
build healing_matched "$scratch/matched.onnx" --loss "mse(y)"
matched=$built/trainer
build healing_pyramid "$scratch/pyramid.onnx" --loss "mse(y)"
pyramid=$built/trainer
build healing_choice "$scratch/choice.onnx" --loss "mse(y)"
choice=$built/trainer
build healing_halves "$scratch/halves.onnx" --loss "mse(y)"
halves=$built/trainer
build healing_best "$scratch/best.onnx" --loss "mse(y)"
best=$built/trainer
build healing_computed "$scratch/computed.onnx" --loss "mse(y)"
check "anomalies" python3 test/healing/anomalies.py "$scratch" "$window" "$narrow" "$tokens" "$chosen" "$matched" "$pyramid" "$choice" "$halves" "$best" "$built/trainer"
finish
