#!/bin/sh
# The processor's expf, expm1f and tanhf: precise, and the same in vectors as alone; for the processor at hand and for a plain one.
set -e
work=$TEST_OUT/exponentials
mkdir -p "$work"
for machine in native x86-64; do
    case $(uname -m)-$machine in x86_64-* | *-native) ;; *) continue ;; esac
    g++ -std=c++17 -O3 -march=$machine -fno-math-errno -fno-trapping-math -fopenmp ${SANITIZERS-} -Wall -Wextra -Werror -Iruntime -o "$work/$machine" test/kernels/exponentials.cpp
    "$work/$machine"
done
