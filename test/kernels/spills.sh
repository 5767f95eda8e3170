# No kernel of the project's models keeps what should be in registers in local memory: ptxas says so, and would say it of one that does.
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "skipped: nvcc is not here"; exit 77; }
. test/check.inc
compile() { # WHAT FOLDER SOURCE OPTIONS: prints the kernels that have a stack or spill
    local what=$1 folder=$2 source=$3
    shift 3
    "$nvcc" -std=c++17 -O3 -arch=sm_90 -I"$folder" -Xptxas -v -cubin -o "$scratch/$what.cubin" "$@" "$source" >"$scratch/$what.ptxas" 2>&1 ||
        { fail "$what: $(cat "$scratch/$what.ptxas")"; return; }
    grep -c 'registers' "$scratch/$what.ptxas" >"$scratch/$what.count"
    awk '/Compiling entry function/ { name = $6 } /[1-9][0-9]* bytes (stack frame|spill)/ { print name ": " $0 }' "$scratch/$what.ptxas"
}

cat >"$scratch/many.cu" <<'END'
__global__ void many(float *y, const float *x)
{
    float v[64];
#pragma unroll
    for (int i = 0; i < 64; i++) v[i] = x[i * 1024 + threadIdx.x];
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int i = 0; i < 64; i++) y[(j * 64 + i) * 1024 + threadIdx.x] = v[(i * 7 + j) % 64] * v[i];
}
END
[ -n "$(compile many . "$scratch/many.cu" -maxrregcount 24)" ] || fail "64 numbers fit into 24 registers: the check sees nothing"

for name in letters flow tracks shapes; do
    check "$name: disc-gen" "$DISC_GEN" models/$name.onnx -o "$scratch/$name" >"$scratch/said.out" 2>&1
    found=$(compile $name "$scratch/$name" "$scratch/$name/model.cu")
    [ -z "$found" ] || fail "$name: $found"
    echo "$name: $(cat "$scratch/$name.count") kernels"
done
[ $failures = 0 ]
