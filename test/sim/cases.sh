# Every kind of kernel in the simulator (runtime/sim/sim.h), fused and unfused, against the interpreter: nothing is found, results are right
# in several orders of threads and for several sizes of blocks and grids.  Without the cases that are as large as the host's tiles of convolutions.
# Kernels with narrow indices have 16 bits here, where a launch's reach says that those are enough: a reach that forgets an index gives
# wrong elements.
work=$TEST_OUT/sim.cases
mkdir -p "$work"
blas=$(ls -d /usr/lib/"$(cc -print-multiarch)"/openblas-openmp /usr/lib/openblas-openmp 2>/dev/null | head -1)
[ -n "$blas" ] || { echo "skipped: libopenblas-openmp-dev is not here"; exit 77; }
"$TEST_OUT/kernels" "$work" $(ls test/kernels/cases/*.ir | grep -v 'conv_[tl]') || exit 1
warn="-Wall -Wextra -Wno-unknown-pragmas -Werror"
sim="g++ -std=c++17 -O1 -g -fno-exceptions -fsanitize=thread -DDEVICE_SIM -D__CUDACC__ -DNARROW_INDEX=int16_t -Iruntime/sim -Iruntime -Itest/kernels $warn -x c++ -c"
$sim -o "$work/cases.o" "$work/cases.cu" && $sim -o "$work/conv_cuda.o" runtime/device/conv_cuda.cu || exit 1
for source in sim/sim sim/shadow device/blas_host device/threads_host; do
    g++ -std=c++17 -O2 -fopenmp $warn -Iruntime -I/usr/include/"$(cc -print-multiarch)"/openblas-openmp -c -o "$work/$(basename $source).o" runtime/$source.cpp || exit 1
done
g++ -fopenmp -o "$work/cases" "$work"/*.o -L"$blas" -Wl,-rpath,"$blas" -lopenblas -lm || exit 1
failures=0
for order in seed=1,threads=64 seed=2,threads=96,blocks=3; do
    DISC_SIM=$order "$work/cases" "$work/cases.bin" || { echo "FAILED: $order"; failures=1; }
done
WIDE_INDICES=1 DISC_SIM=seed=1,threads=64 "$work/cases" "$work/cases.bin" || { echo "FAILED: wide indices"; failures=1; }
exit $failures
