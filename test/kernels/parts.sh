#!/bin/sh
# Products cut into parts: right, and where OpenBLAS has 512-bit vectors the same bits on one thread, two and seven.
set -e
arch=$(cc -print-multiarch 2>/dev/null || true)
blas=$(for d in /usr/lib/"$arch"/openblas-openmp /usr/lib/openblas-openmp; do if [ -d "$d" ]; then echo "$d"; break; fi; done)
if [ -z "$blas" ]; then echo "skipped: libopenblas-openmp-dev is not here"; exit 77; fi
work=$TEST_OUT/parts
mkdir -p "$work"
mvec=$(case $arch in x86*) echo -lmvec ;; esac)
g++ -std=c++17 -O2 -march=native -fno-math-errno -fno-trapping-math -fopenmp ${SANITIZERS-} -Wall -Wextra -Wno-unused-function -Werror -Iruntime \
    -I"/usr/include/$arch/openblas-openmp" -D'USED_TYPES(T)=T(float)' -D'USED_SHORT_TYPES(T)=' -o "$work/parts" test/kernels/parts.cpp \
    runtime/device/blas_host.cpp runtime/device/threads_host.cpp -L"$blas" -Wl,-rpath,"$blas" -lopenblas $mvec -lm
for threads in 1 2 7; do OMP_NUM_THREADS=$threads "$work/parts" >"$work/$threads"; done
if grep -qw avx512bw /proc/cpuinfo; then
    cmp "$work/1" "$work/2"
    cmp "$work/1" "$work/7"
fi
