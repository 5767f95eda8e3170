# Streams with anomalies of every kind under the thread sanitizer, with threads that share out even the smallest launches, and the test of those
# threads alone: no race, no deadlock.  test/long/soak.sh is the long one.
. test/check.inc
unset SANITIZE MAKEFLAGS # the other sanitizers
export CC="gcc -fsanitize=thread -g" CXX="g++ -fsanitize=thread -g" CFLAGS=-O1 OMP_NUM_THREADS=3
$CXX -std=c++17 -O1 -fopenmp -Iruntime -c -o "$scratch/threads.o" runtime/device/threads_host.cpp &&
    $CC -std=gnu11 -O1 -Iruntime -Itest -c -o "$scratch/test.o" test/unit/runtime_threads.c &&
    $CXX -fopenmp -o "$scratch/threads" "$scratch/threads.o" "$scratch/test.o" -lcmocka || fail "the threads are not built"
check "threads alone" sh -c "'$scratch/threads' >'$scratch/said.out' 2>&1 || { tail -40 '$scratch/said.out'; false; }"
for name in tracks flow; do
    folder=$scratch/$name
    "$DISC_GEN" models/$name.onnx -o "$folder" >"$scratch/said.out" 2>&1 || fail "disc-gen $name"
    sed -i 's/HOST_GRAIN = 4096/HOST_GRAIN = 64/' "$folder/runtime/device/device_host.h"
    check "what is worth a thread" grep -q 'HOST_GRAIN = 64' "$folder/runtime/device/device_host.h"
    [ $name = tracks ] || { mkdir -p "$folder/objects-host" && cp -r "$scratch/tracks/objects-host/runtime" "$folder/objects-host/"; rm -f "$folder"/objects-host/runtime/device/{blas,conv}_host.o; }
    check "built under the thread sanitizer" make -s -j2 -C "$folder" DEVICE=host 'HOST_FLAGS=-std=c++17 -O1 -march=native -fno-math-errno -fno-trapping-math -fopenmp'
    check "$name" timeout 900 python3 test/healing/soak.py "$folder/trainer" $name 900 "$scratch"
done
finish
