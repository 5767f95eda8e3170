# The zoo in the simulator (runtime/sim/sim.h): nothing is found, gradients agree with PyTorch's and do not depend on the order of threads.
[ -d ../shared/zoo ] || { echo "skipped: ../shared/zoo is not here"; exit 77; }
. test/check.inc
. test/build.inc
for name in $zoo_models; do
    zoo=../shared/zoo/$name
    build_zoo sim.$name "$name"
    simulate
    for order in seed=1,threads=64 seed=2,threads=64; do
        DISC_SIM=$order "$simulated" --batch-file "$zoo/golden.safetensors" --steps 1 --progress never --save-gradients "$scratch/$name.$order" \
            >"$scratch/said.out" 2>&1 || fail "$name, $order: $(cat "$scratch/said.out")"
    done
    said=$(python3 test/sim/compare.py "$zoo/golden.safetensors" "$scratch/$name.$order" 2e-4 grad.) || fail "$name: $said"
    echo "$name: $said"
    check "$name: the order does not matter" cmp "$scratch/$name.seed=1,threads=64" "$scratch/$name.$order"
done
[ $failures = 0 ]
