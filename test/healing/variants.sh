# Variants of a step: made beside the run, proven, swapped in; and all the ways in which that goes wrong (variants.py).
. test/check.inc
. test/build.inc
python3 test/healing/models.py "$scratch" || exit 1
build healing_varied "$scratch/window.onnx" --loss "mse(y)"
check "variants" python3 test/healing/variants.py "$built/trainer" "$scratch"
finish
