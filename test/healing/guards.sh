# Shapes and contents mutated around each kernel, and the rows of controller.c dropped one at a time (guards.py): in programs built with the
# sanitizers, where a unit that leaves its tensors is found (runtime/controller/fence.h).  The zoo's: test/long/guards.sh.
. test/check.inc
. test/build.inc
. test/healing/guards.inc
python3 test/healing/models.py "$scratch" || exit 1
guarded flow models/flow.onnx
guarded tokens "$scratch/tokens.onnx" --loss "cross_entropy(logits, axis=-1)"
for name in pyramid best; do guarded $name "$scratch/$name.onnx" --loss "mse(y)"; done
[ $failures = 0 ]
