# The tile primitive's body for CUDA, sums in float32 and on tensor cores, in the simulator (runtime/sim/sim.h); and that all sizes of heads have
# room for blocks of attention, which are made of tiles.
work=$TEST_OUT/sim.tile
mkdir -p "$work"
g++ -std=c++17 -fsyntax-only -Wall -Wextra -Wno-unknown-pragmas -Werror -DDEVICE_SIM -D__CUDACC__ -Iruntime/sim -Iruntime test/sim/attention_room.cpp || exit 1
for source in sim shadow; do g++ -std=c++17 -O2 -Wall -Wextra -Werror -c -o "$work/$source.o" runtime/sim/$source.cpp || exit 1; done
for how in "" -DTILE_TF32; do
    g++ -std=c++17 -O1 -g -fno-exceptions -Wall -Wextra -Wno-unknown-pragmas -Werror -fsanitize=thread -DDEVICE_SIM -D__CUDACC__ $how -Iruntime/sim -Iruntime \
        -c -o "$work/tile.o" test/sim/tile.cpp && g++ -o "$work/tile" "$work"/*.o || exit 1
    for seed in 1 2 3; do DISC_SIM=seed=$seed "$work/tile" || exit 1; done
done
