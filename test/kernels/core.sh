#!/bin/sh
# OpenBLAS takes kernels for the widest vectors of the processor, whatever OPENBLAS_CORETYPE says; DISC_BLAS_CORE is obeyed.
set -e
grep -qw avx2 /proc/cpuinfo || { echo "skipped: the processor has no avx2"; exit 77; }
arch=$(cc -print-multiarch)
blas=/usr/lib/$arch/openblas-openmp
if [ ! -d "$blas" ]; then echo "skipped: libopenblas-openmp-dev is not here"; exit 77; fi
work=$TEST_OUT/core
mkdir -p "$work"
gcc -c -o "$work/core.o" test/kernels/core.c
g++ -std=c++17 -fopenmp ${SANITIZERS-} -Iruntime -I"/usr/include/$arch/openblas-openmp" -o "$work/core" "$work/core.o" runtime/device/blas_host.cpp runtime/device/threads_host.cpp runtime/device/memory_host.cpp \
    -L"$blas" -Wl,-rpath,"$blas" -lopenblas -lmvec -lm
wide=$(OPENBLAS_CORETYPE=Nehalem "$work/core")
case $wide in
Nehalem | Prescott | Core2 | Barcelona) echo "OPENBLAS_CORETYPE=Nehalem: $wide, narrower than the processor"; exit 1 ;;
Haswell | Zen) if grep -qw avx512bw /proc/cpuinfo; then echo "$wide, narrower than the processor"; exit 1; fi ;;
esac
told=$(DISC_BLAS_CORE=Nehalem "$work/core")
if [ "$told" != Nehalem ]; then echo "DISC_BLAS_CORE=Nehalem: $told"; exit 1; fi
