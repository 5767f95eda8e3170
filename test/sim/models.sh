# The project's models in the simulator (runtime/sim/sim.h): nothing is found, in several orders of threads and for several sizes of
# blocks and grids; gradients agree with those of the host build, and do not depend on the order.
. test/check.inc
. test/build.inc
python3 test/sim/batches.py "$scratch" || exit 1

for name in letters flow tracks shapes; do
    build $name models/$name.onnx
    simulate
    run() { # TRAINER FILE
        "$1" --batch-file "$scratch/$name.safetensors" --steps 2 --progress never --save-gradients "$2" --save-weights "$2.after" \
            >"$scratch/said.out" 2>&1 || fail "$name, ${DISC_SIM-host}: $(cat "$scratch/said.out")"
    }
    run "$built/trainer" "$scratch/$name.host"
    for order in seed=1 seed=2 seed=3,threads=64 seed=4,threads=64 seed=5,threads=96,blocks=3 seed=6,threads=512,blocks=2; do
        DISC_SIM=$order run "$simulated" "$scratch/$name.$order"
        said=$(python3 test/sim/compare.py "$scratch/$name.host" "$scratch/$name.$order" 5e-6) || fail "$name, $order: $said"
        echo "$name, $order: $said"
    done
    for file in "" .after; do
        check "$name: the order does not matter" cmp "$scratch/$name.seed=1$file" "$scratch/$name.seed=2$file"
        check "$name: nor with other blocks" cmp "$scratch/$name.seed=3,threads=64$file" "$scratch/$name.seed=4,threads=64$file"
    done
done
[ $failures = 0 ]
