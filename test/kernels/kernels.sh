#!/bin/sh
# Every kind of kernel against the interpreter, fused and unfused, on one thread and on two; nvcc, where it is, must take them as they are.
set -e
work=$TEST_OUT/kernel_cases
mkdir -p "$work"
"$TEST_OUT/kernels" "$work" test/kernels/cases/*.ir
arch=$(cc -print-multiarch 2>/dev/null || true)
blas=$(for d in /usr/lib/"$arch"/openblas-openmp /usr/lib/openblas-openmp; do if [ -d "$d" ]; then echo "$d"; break; fi; done)
if [ -z "$blas" ]; then echo "skipped: libopenblas-openmp-dev is not here"; exit 77; fi
mvec=$(case $arch in x86*) echo -lmvec ;; esac)
flags="-std=c++17 ${SANITIZERS:+-O1} ${SANITIZERS:--O3} -march=native -fno-math-errno -fno-trapping-math -fopenmp -Wall -Wextra -Werror -Iruntime -Itest/kernels -I/usr/include/$arch/openblas-openmp"
for source in runtime/device/blas_host.cpp runtime/device/conv_host.cpp runtime/device/threads_host.cpp; do
    g++ $flags -c -o "$work/$(basename $source .cpp).o" $source
done
g++ $flags -x c++ -c -o "$work/cases.o" "$work/cases.cu"
g++ -fopenmp ${SANITIZERS-} -o "$work/cases" "$work"/cases.o "$work"/blas_host.o "$work"/conv_host.o "$work"/threads_host.o -L"$blas" -Wl,-rpath,"$blas" -lopenblas $mvec -lm
OMP_NUM_THREADS=1 "$work/cases" "$work/cases.bin"
OMP_NUM_THREADS=2 "$work/cases" "$work/cases.bin"

# Products that a library cannot count go without it: here those of more than 6 rows, columns or terms.
g++ $flags -DLIBRARY_LIMIT=6 -c -o "$work/blas_limited.o" runtime/device/blas_host.cpp
g++ -fopenmp ${SANITIZERS-} -o "$work/cases_limited" "$work"/cases.o "$work"/blas_limited.o "$work"/conv_host.o "$work"/threads_host.o -L"$blas" -Wl,-rpath,"$blas" -lopenblas $mvec -lm
OMP_NUM_THREADS=2 "$work/cases_limited" "$work/cases.bin"

nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null || true)
if [ -z "$nvcc" ]; then echo "nvcc is not here: kernels were not compiled for CUDA"; exit 0; fi
for source in "$work/cases.cu" runtime/device/blas_cuda.cu runtime/device/conv_cuda.cu; do
    "$nvcc" -std=c++17 -arch=sm_90 -Iruntime -Itest/kernels -Xcompiler -Wall,-Wextra -diag-suppress 177,550 -Werror all-warnings \
        -c -o "$work/$(basename "$source" .cu).cuda.o" "$source"
done
"$nvcc" -arch=sm_90 -o "$work/cases.cuda" "$work"/*.cuda.o -lcublas -lcublasLt
echo "nvcc compiled and linked all kernels"
