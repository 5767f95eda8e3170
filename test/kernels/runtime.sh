# The runtime's part for a GPU compiles without a warning; and so does a program's step, which launches by what the runtime has.
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "skipped: nvcc is not here"; exit 77; }
. test/check.inc
compile() { # WHAT SOURCE OPTIONS
    local what=$1 source=$2
    shift 2
    "$nvcc" -std=c++17 -arch=sm_90 -O1 -Werror all-warnings -Xcompiler -Wall,-Werror -D'USED_TYPES(T)=T(float) T(bfloat16)' -D'USED_SHORT_TYPES(T)=T(bfloat16)' "$@" \
        -c -o "$scratch/$what.o" "$source" >"$scratch/said.out" 2>&1 || fail "$what: $(cat "$scratch/said.out")"
}
for source in runtime/device/{memory,copies,graph,rates,blas}_cuda.cu; do compile "$(basename "$source" .cu)" "$source"; done
check "disc-gen" "$DISC_GEN" models/flow.onnx -o "$scratch/flow" >"$scratch/said.out" 2>&1
compile model "$scratch/flow/model.cu"
[ $failures = 0 ]
