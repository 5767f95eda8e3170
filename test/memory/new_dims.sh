# A batch of new dims is planned in milliseconds, one of a program with 10,000 values in less than 100 (test/memory/new_dims.c).  What
# is measured is the processor's time; twice the figure is allowed for slower machines.
. test/check.inc
plans() { # NAME MODEL.onnx MILLISECONDS RANGE...
    local generated=$scratch/$1
    "$DISC_GEN" "$2" -o "$generated" --init 'normal(0.02)' --no-report >"$scratch/said" 2>&1 || { cat "$scratch/said"; fail "$1: not generated"; return; }
    cc -std=gnu11 -O0 -I"$generated" -I"$generated/runtime" -c "$generated/controller.c" -o "$generated.o" &&
        cc -no-pie -Wl,--unresolved-symbols=ignore-all -o "$generated.plans" "$scratch"/*.planner.o "$generated.o" -lm || { fail "$1: does not link"; return; } # tables alone: there are no kernels
    check "$1" "$generated.plans" $((2 * $3)) "${@:4}"
}
for source in test/memory/new_dims runtime/controller/{flow,simulate,ladder,search,offsets,realise,planner}; do
    cc -std=gnu11 -O2 -Iruntime/controller -c $source.c -o "$scratch/$(basename $source).planner.o" || fail "$source"
done
python3 test/scale/graphs.py residual 8000 "$scratch/residual.onnx"
plans letters models/letters.onnx 10 batch=1..64 seq=4..200
plans residual "$scratch/residual.onnx" 100 batch=1000..64000
[ ! -d ../shared/zoo ] || plans llama2_1b ../shared/zoo/architectures/llama2_1b.onnx 20 batch=1..64 seq=16..900
finish
