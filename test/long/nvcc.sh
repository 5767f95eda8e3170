# What is generated is CUDA: nvcc compiles it.
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "skipped: nvcc is not here"; exit 77; }
scratch=$TEST_OUT/long.nvcc
failures=0
for model in models/*.onnx ../shared/models/01*/base_pat_02.onnx ../shared/models/04*/network_infer.onnx ../shared/models/05*/*.onnx \
    ../shared/models/07*/*.onnx ../shared/models/08*/*.onnx ../shared/models/09*/*.onnx ../shared/models/11*/*.onnx ../shared/zoo/architectures/*.onnx; do
    [ -f "$model" ] || continue
    rm -rf "$scratch"
    "$DISC_GEN" "$model" -o "$scratch" --init "normal(0.02)" >/dev/null 2>&1 || { echo "FAILED: $model: exit status $?"; failures=1; continue; }
    before=$(date +%s)
    "$nvcc" -std=c++17 -arch=sm_90 -I"$scratch" -c -o "$scratch/model.o" "$scratch/model.cu" || { echo "FAILED: $model"; failures=1; }
    echo "$model: $(($(date +%s) - before)) s"
done
exit $failures
