# Variants of a step: made beside the run, proven, swapped in; and all the ways in which that goes wrong (variants.py).
. test/check.inc
. test/build.inc
python3 test/healing/models.py "$scratch" || exit 1
build healing_varied "$scratch/window.onnx" --loss "mse(y)"
trainer=$built/trainer
python3 test/memory/row_blocks_model.py "$scratch" || exit 1
build healing_varied_rows "$scratch/model.onnx" --loss 'cross_entropy(scores, axis=-1)' --optimizer sgd
check "variants" python3 test/healing/variants.py "$trainer" "$scratch" "$built/trainer"
finish
