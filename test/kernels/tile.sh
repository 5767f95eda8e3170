#!/bin/sh
# The tile primitive: for every vector width that this machine has, with the address sanitizer once, against plain loops; and by nvcc,
# where it is, without spills.
set -e
work=$TEST_OUT/tile
mkdir -p "$work"
mvec=$(case $(uname -m) in x86_64) echo -lmvec ;; esac)
flags="-std=c++17 -fno-math-errno -fno-trapping-math -fopenmp -Wall -Wextra -Werror -Iruntime"
run() {
    g++ $flags $1 -o "$work/tile" test/kernels/tile.cpp $mvec -lm
    "$work/tile"
}
run "-O2 -march=native -mprefer-vector-width=512"
if [ "$(uname -m)" = x86_64 ]; then
    run "-O1"
    if grep -q avx2 /proc/cpuinfo; then run "-O1 -mavx2 -mfma -fsanitize=address,undefined"; fi
fi
nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [ -z "$nvcc" ]; then echo "nvcc is not here: the tile was not compiled for CUDA"; exit 0; fi
for how in "-arch=sm_90" "-arch=sm_80 -DTILE_TF32"; do
    "$nvcc" -std=c++17 -O3 $how -Iruntime -Xcompiler -Wall,-Wextra -Werror all-warnings -Xptxas -v -cubin -o "$work/tile.cubin" test/kernels/tile.cu 2>"$work/ptxas"
    if grep -E '[1-9][0-9]* bytes (stack frame|spill)' "$work/ptxas"; then echo "spills, $how"; exit 1; fi
done
echo "nvcc compiled all tiles"
