# A stream with anomalies of every kind under the thread sanitizer: no race, no deadlock.  test/long/soak.sh is the long one.
. test/check.inc
"$DISC_GEN" models/tracks.onnx -o "$scratch/tracks" >"$scratch/said.out" 2>&1 || fail "disc-gen"
export CC="gcc -fsanitize=thread -g" CXX="g++ -fsanitize=thread -g" CFLAGS=-O1
check "built under the thread sanitizer" make -s -j2 -C "$scratch/tracks" DEVICE=host
check "tracks" python3 test/healing/soak.py "$scratch/tracks/trainer" tracks 600 "$scratch"
finish
