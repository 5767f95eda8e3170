# The simulator (runtime/sim/sim.h) tells what is wrong with wrong kernels, in every order of threads, and passes right ones.
. test/check.inc
make_sim() { g++ -std=c++17 -O1 -g -fno-exceptions -Wall -Wextra -Wno-unknown-pragmas -Werror -fsanitize=thread -DDEVICE_SIM -D__CUDACC__ -Iruntime/sim -Iruntime -x c++ "$@"; }
make_sim -c -o "$scratch/faults.o" test/sim/faults.cu || exit 1
for source in sim shadow; do g++ -std=c++17 -O2 -Wall -Wextra -Werror -c -o "$scratch/$source.o" runtime/sim/$source.cpp || exit 1; done
g++ -o "$scratch/faults" "$scratch"/*.o || exit 1
export DISC_SIM=seed=1
while IFS= read -r name; do
    expect "$name" 1 "$scratch/faults" "$name"
    for seed in 2 3 4 5; do
        DISC_SIM=seed=$seed "$scratch/faults" "$name" >"$scratch/said.out" 2>&1 && fail "$name: not found with seed $seed"
    done
done <<'END'
neighbour
rounds
early end
two barriers
divergent shuffle
half mask
not in mask
warp neighbour
all write
flag
blocks share
read after write
past the end
not aligned
writes operand
unwritten
END
for name in neighbour rounds "half mask" "warp neighbour" flag "not aligned" helpers; do
    for order in seed=1 seed=2 seed=3; do
        DISC_SIM=$order "$scratch/faults" "$name, right" 2>"$scratch/said.err" || fail "$name, right: $(cat "$scratch/said.err")"
    done
done
finish
