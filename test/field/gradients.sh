# Gradients of small models of what is met in the field, against central differences.
scratch=$TEST_OUT/field.gradients
rm -rf "$scratch" && mkdir -p "$scratch"
python3 test/field/models.py "$scratch" || exit 1
failures=0
agrees() { # how many weights train, MODEL, OUTPUT, dims…
    local gradients=$1 model=$2 output=$3
    shift 3
    echo "$model"
    "$TEST_OUT/field_gradients" "$scratch/$model.onnx" "mse($output)" "$@" >"$scratch/said" 2>"$scratch/noticed" || failures=$((failures + 1))
    cat "$scratch/said"
    [ "$(grep -c "loss .*, $gradients gradients" "$scratch/said")" = $# ] || { cat "$scratch/noticed"; echo "FAILED: $model: wanted $gradients gradients at $# shapes"; failures=$((failures + 1)); }
}
agrees 4 matmul_broadcast y "batch=2, seq=5" "batch=1, seq=1" "batch=3, seq=2"
agrees 2 matmul_two y "batch=2, seq=5, n=3" "batch=1, seq=1, n=4"
agrees 5 layer_norm y "batch=3" "batch=1"
agrees 1 concat_empty y "batch=3" "batch=1"
agrees 1 concat_empty_sizes y "batch=3" "batch=1"
agrees 1 symbol_digits y "2=5" "2=1"
agrees 1 symbol_star y "*=2, **=3" "*=3, **=1"
agrees 1 symbol_empty y "x.0=2, x.1=3" "x.0=3, x.1=1"
agrees 1 no_output_shape y "batch=3"
agrees 1 no_output_type y "batch=3"
agrees 3 if_three_deep y "batch=2" "batch=3"
agrees 3 loop_if_loop y "batch=2" "batch=3"
agrees 3 names while "batch:0*/size=3" "batch:0*/size=1"
agrees 1 constant_int y "batch=2" "batch=1"
agrees 1 opset_twice y "batch=2"
agrees 1 opset_two_names y "batch=2"
agrees 2 folded y "batch=2, length=5" "batch=1, length=1"
exit $((failures > 0))
