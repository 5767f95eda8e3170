#!/bin/sh
# Convolutions of a variant have the bits of the program's own, on one thread and on two.
set -e
arch=$(cc -print-multiarch 2>/dev/null || true)
blas=$(for d in /usr/lib/"$arch"/openblas-openmp /usr/lib/openblas-openmp; do if [ -d "$d" ]; then echo "$d"; break; fi; done)
if [ -z "$blas" ]; then echo "skipped: libopenblas-openmp-dev is not here"; exit 77; fi
work=$TEST_OUT/known
mkdir -p "$work"
mvec=$(case $arch in x86*) echo -lmvec ;; esac)
vectors=$(case $arch in x86*) echo -mprefer-vector-width=512 ;; esac)
flags="-std=c++17 -O3 -march=native $vectors -fno-math-errno -fno-trapping-math -fopenmp -Wall -Wextra -Wno-unused-function -Werror -Iruntime"
used="-D'USED_TYPES(T)=T(float)T(double)' -D'USED_SHORT_TYPES(T)='"
for source in test/kernels/known.cpp runtime/device/conv_host.cpp runtime/device/blas_host.cpp runtime/device/threads_host.cpp; do
    eval g++ $flags "$used" -I"/usr/include/$arch/openblas-openmp" -c -o "$work/$(basename $source .cpp).o" $source
done
g++ -fopenmp -o "$work/known" "$work"/known.o "$work"/conv_host.o "$work"/blas_host.o "$work"/threads_host.o -L"$blas" -Wl,-rpath,"$blas" \
    -lopenblas $mvec -lm
for threads in 1 2; do OMP_NUM_THREADS=$threads "$work/known"; done
echo "conv_known.h: the same bits"
