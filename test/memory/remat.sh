# What is given up and made again under a budget changes no bit of losses, gradients and weights; budgets are kept; the least bytes that
# are named suffice, and one byte less does not (test/memory/remat.py).
. test/check.inc
. test/build.inc
figures=vary
[ -d ../shared/zoo ] || { echo "skipped: ../shared/zoo is not there"; exit 77; }
for name in gpt2_dynamo llama_dynamo lstm_ae_dynamo resnet_script vit_script; do
    build_zoo "remat_$name" "$name"
    for seed in 1 2; do
        mkdir -p "$scratch/$name"
        python3 test/memory/remat.py "$built/trainer" "$scratch/$name" "../shared/zoo/$name/golden.safetensors" $seed || fail "$name, seed $seed"
    done
done
finish
