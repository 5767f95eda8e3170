# The zoo in the simulator (runtime/sim/sim.h): nothing is found, gradients agree with PyTorch's and do not depend on the order of threads.
[ -d ../shared/zoo ] || { echo "skipped: ../shared/zoo is not here"; exit 77; }
. test/check.inc
. test/build.inc
for name in gpt2_dynamo llama_dynamo bert_script lstm_ae_dynamo vfm_dynamo moe_dynamo vit_script resnet_script unet_dynamo; do
    zoo=../shared/zoo/$name
    loss=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["loss"])' "$zoo/golden.json")
    build sim.$name "$zoo/model.onnx" --loss "$loss"
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
