# Dims that only the step tells, where no plan at their upper bounds fits: planned again in the middle of the step (test/memory/late.py).
. test/check.inc
. test/build.inc
python3 test/memory/late_model.py "$scratch"
build late "$scratch/model.onnx" --loss 'mse(out)' --optimizer sgd
check "late dims" python3 test/memory/late.py "$built/trainer" "$scratch"
finish
