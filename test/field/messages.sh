# What disc-gen says of models met in the field that are wrong or lost something, and a trainer of data that does not fit.
. test/check.inc
. test/build.inc
python3 test/field/models.py "$scratch"
expect "ConstantOfShape with a negative size" 2 "$DISC_GEN" "$scratch/constant_of_shape.onnx" -o "$scratch/out" --loss "mse(y)"
expect "equal counts, different shapes" 2 "$DISC_GEN" "$scratch/equal_counts.onnx" -o "$scratch/out" --loss "mse(z)"
expect "two versions of one domain" 0 "$DISC_GEN" "$scratch/opset_two_versions.onnx" -o "$scratch/out" --loss "mse(y)"
expect "a BatchNormalization folded into a Conv" 0 "$DISC_GEN" "$scratch/folded.onnx" -o "$scratch/out" --loss "mse(y)"

# Inputs that share symbols and do not agree in the data; step1 holds as many elements in both.
build field_shared_symbol "$scratch/shared_symbol.onnx" --loss "mse(y)"
batches() { python3 test/models/batches.py "$scratch/$1.safetensors" "${@:2}"; }
good="a=reals:2,6,4 b=reals:2,6,4 target=reals:2,6,3"
batches good $good
batches other_batch $good / a=reals:2,6,4 b=reals:3,6,4 target=reals:2,6,3
batches equal_counts $good / a=reals:2,6,4 b=reals:3,4,4 target=reals:2,6,3
step="$built/trainer --steps 2 --progress never --batch-file"
check "the good one trains" $step "$scratch/good.safetensors"
for name in other_batch equal_counts; do
    expect "$name, set aside" 4 $step "$scratch/$name.safetensors"
    expect "$name, stopped" 4 $step "$scratch/$name.safetensors" --on-anomaly stop
done

# Names that are no names in C, digits, slashes: the program builds and trains.
build field_names "$scratch/names.onnx" --loss "mse(while)"
batches names in/put:0=reals:4,4 target=reals:4,3 / in/put:0=reals:3,4 target=reals:3,3
check "odd names train" "$built/trainer" --batch-file "$scratch/names.safetensors" --steps 40 --lr 0.02 --progress never --log "$scratch/names.log"
check "odd names learn" python3 test/models/falls.py "$scratch/names.log" 40 2
"$built/trainer" --batch-file "$scratch/names.safetensors" --steps 1 --progress never --save-weights "$scratch/names.weights" >/dev/null 2>&1
check "odd names are kept" python3 -c '
import sys
sys.path.insert(0, "test/support")
from tensors import read
assert {"a.b" * 100, "0", "a/b"} <= set(read(sys.argv[1])[0]), read(sys.argv[1])[0].keys()' "$scratch/names.weights"
finish
