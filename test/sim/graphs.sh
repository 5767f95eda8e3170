# Steps that come again are recorded and launched as graphs (runtime/controller/record.h), in the simulator, whose graphs keep every launch with its
# arguments: losses, weights and states are the same bits as when kernels are launched one by one, with dropout, with other learning rates,
# through overflows of the loss scale, with buffers given up and made again, and where graphs fail.
. test/check.inc
. test/build.inc
batches() { python3 test/models/batches.py "$scratch/$1.safetensors" "${@:2}"; }
prepare() { # NAME BATCHES: after build
    simulate
    check "$1 links" link_with_built test/sim/graphs.c "$scratch/$1" sim
}
both() { # NAME WHAT STEPS LIMIT FAULT SCALE LINE...: each line must be among those printed
    local name=$1 what=$2 steps=$3 limit=$4 fault=$5 scale=$6 line
    shift 6
    FOLDER=$built "$scratch/$name" "$scratch/${batches_of-$name}.safetensors" "$built/weights.safetensors" $steps $limit "$fault" $scale >"$scratch/said.out" 2>&1 ||
        fail "$name, $what: $(cat "$scratch/said.out")"
    for line in "$@"; do grep -q "$line" "$scratch/said.out" || fail "$name, $what: no line \"$line\": $(cat "$scratch/said.out")"; done
    if grep -q sim: "$scratch/said.out"; then fail "$name, $what: the simulator found something: $(cat "$scratch/said.out")"; fi
    echo "$name, $what: $(grep -c graph_recorded "$scratch/said.out") recorded, $(tail -1 "$scratch/said.out")"
}
recorded='graph_recorded, [0-9]* launches in'

build letters models/letters.onnx
prepare letters
batches letters input_ids=ints20:2,9 / input_ids=ints20:2,9 / input_ids=ints20:3,5
both letters "two kinds of dims" 13 0 "" "" "step 7: $recorded 2 graphs" "step 11: $recorded 2 graphs" "the same bits"
batches letters input_ids=ints20:2,9
for nth in 1 2 3 4; do
    both letters "graph $nth fails" 7 0 graph=$nth "" "step $((3 + (nth - 1) / 2)): graph_dropped: it could not be launched" "the same bits"
done
updates=$(sed -n '/^STEP_FUNCTION int train_step/,/^}/p' "$built/model.cu" | grep -c 'LAUNCH(s, update,')
check "kernels called update" [ "$updates" -gt 0 ]
both letters "behind the commit a graph fails, and then a kernel" 6 0 "graph=2,launch=$((3 * updates + 1)),kernel=update" "" "1 units mended" trained
least=$("$built/trainer" --plan --dim batch=2 --dim seq=9 --json | sed -n 's/.*"minimum_bytes":\([0-9]*\).*/\1/p')
both letters "little memory" 6 $((least + 131072)) "" "" "recomputes: yes" "step 3: $recorded" "the same bits"
both letters "no memory" 6 $((least + 4096)) "" "" "graph_dropped: the budget leaves no room for it" "the same bits"

check "a model with dropout" python3 test/sim/dropout.py "$scratch/dropout.onnx"
build sim_dropout "$scratch/dropout.onnx"
prepare dropout
batches dropout x=reals:6,5 target=ints4:6 / x=reals:6,5 target=ints4:6
both dropout "masks" 16 0 "" "" "step 3: $recorded 2 graphs" "the same bits"

build precision_fp16_tracks models/tracks.onnx --precision fp16
prepare tracks
batches tracks trajectory=reals:2,5,6 target=reals:2,5,6
both tracks "overflows of fp16" 12 0 "" scale "step 3: $recorded 3 graphs" "12 steps, [1-9][0-9]* overflows" "the same bits"

build precision_bf16 models/letters.onnx --loss "next_token(logits)" --precision bf16
prepare bf16
batches_of=letters both bf16 "numbers of 16 bits" 6 0 "" "" "step 3: $recorded 2 graphs" "the same bits"
[ $failures = 0 ]
