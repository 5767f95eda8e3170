# Steps that come again are recorded and launched as graphs (runtime/controller/record.h), in the simulator, whose graphs keep every launch with its
# arguments: losses, weights and states are the same bits as when kernels are launched one by one, with dropout, with other learning rates,
# through overflows of the loss scale, with buffers given up and made again, and where graphs fail.
. test/check.inc
. test/build.inc
export DISC_POISON=1 # what lies between tensors is the same, too
batches() { python3 test/models/batches.py "$scratch/$1.safetensors" "${@:2}"; }
prepare() { # NAME BATCHES: after build
    simulate
    check "$1 links" link_with_built test/sim/graphs.c "$scratch/$1" sim
}
both() { # NAME WHAT STEPS LIMIT FAULT SCALE LINE...: each line must be among those printed
    local name=$1 what=$2 steps=$3 limit=$4 fault=$5 scale=$6 line
    shift 6
    FOLDER=$built "$scratch/$name" "$scratch/${batches_of-$name}.safetensors" "$built/weights.safetensors" $steps $limit "$fault" $scale >"$scratch/said.out" 2>&1 ||
        fail "$name, $what: $(tail -8 "$scratch/said.out")"
    for line in "$@"; do grep -q "$line" "$scratch/said.out" || fail "$name, $what: no line \"$line\": $(tail -8 "$scratch/said.out")"; done
    if grep -q sim: "$scratch/said.out"; then fail "$name, $what: the simulator found something: $(grep -m1 sim: "$scratch/said.out")"; fi
    echo "$name, $what: $(grep -c graph_recorded "$scratch/said.out") recorded, $(tail -1 "$scratch/said.out")"
}
recorded='graph_recorded, [0-9]* launches in'

build letters models/letters.onnx
prepare letters
batches letters input_ids=ints20:2,9 / input_ids=ints20:2,9 / input_ids=ints20:3,5
both letters "two kinds of dims" 13 0 "" "" "step 4: $recorded 2 graphs" "step 11: $recorded 2 graphs" "the same bits"
batches letters input_ids=ints20:2,9
for nth in 1 2 3 4; do
    both letters "graph $nth fails" 7 0 graph=$nth "" "step $((3 + (nth - 1) / 2)): graph_dropped: it could not be launched" "the same bits"
done
updates=$(sed -n '/^STEP_FUNCTION int train_step/,/^}/p' "$built/model.cu" | grep -c 'LAUNCH(s, update,')
check "kernels called update" [ "$updates" -gt 0 ]
both letters "behind the commit a graph fails, and then a kernel" 6 0 "graph=2,launch=$((3 * updates + 1)),kernel=update" "" "1 units mended" trained
least=$("$built/trainer" --plan --dim batch=2 --dim seq=9 --json | sed -n 's/.*"minimum_bytes":\([0-9]*\).*/\1/p')
both letters "no memory" 6 $((least + 4096)) "" "" "recomputes: yes" "graph_dropped: the budget leaves no room for it" "the same bits"

check "a model with dropout" python3 test/sim/dropout.py "$scratch/dropout.onnx"
build sim_dropout "$scratch/dropout.onnx"
prepare dropout
batches dropout x=reals:6,5 target=ints4:6 / x=reals:6,5 target=ints4:6
both dropout "masks" 16 0 "" "" "step 3: $recorded 2 graphs" "the same bits"

build precision_fp16_tracks models/tracks.onnx --precision fp16
prepare tracks
batches tracks trajectory=reals:2,5,6 target=reals:2,5,6
both tracks "overflows of fp16" 12 0 "" scale "step 3: $recorded 3 graphs" "12 steps, [1-9][0-9]* overflows" "the same bits"
# Of the budgets under which something is made again, the one that leaves most beside the arena.
tracks_plan() { "$built/trainer" --plan --dim batch=8 --dim time=20 --json "$@" 2>/dev/null | tail -1; }
least=$(tracks_plan | sed -n 's/.*"minimum_bytes":\([0-9]*\).*/\1/p')
limit=$(for limit in $(seq $((least + 10240)) 10240 $((least + 409600))); do echo "$limit $(tracks_plan --memory-limit $limit)"; done | python3 -c '
import json, sys
plans = [(int(limit), json.loads(plan)) for limit, plan in (line.split(" ", 1) for line in sys.stdin)]
print(max((limit - plan["peak_bytes"], limit) for limit, plan in plans if plan["recompute_share"] > 0)[1])')
batches tracks trajectory=reals:8,20,6 target=reals:8,20,6
both tracks "little memory" 6 "$limit" "" "" "recomputes: yes" "step 3: $recorded 3 graphs" "the same bits"
for nth in 4 5 6; do both tracks "little memory, graph $nth fails" 5 "$limit" graph=$nth "" "graph_dropped: it could not be launched" "the same bits"; done

build precision_bf16 models/letters.onnx --loss "next_token(logits)" --precision bf16
prepare bf16
batches_of=letters both bf16 "numbers of 16 bits" 6 0 "" "" "step 3: $recorded 2 graphs" "the same bits"
[ $failures = 0 ]
