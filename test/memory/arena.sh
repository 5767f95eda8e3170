# Arenas are hardly larger than what is alive: within 1.05 of it over random dims and budgets of the zoo's models (arena.c).  SEED=n draws others.
. test/check.inc
. test/build.inc
[ -d ../shared/zoo ] || { echo "skipped: ../shared/zoo is not there"; exit 77; }
for name in bert_script gpt2_dynamo llama_dynamo lstm_ae_dynamo moe_dynamo resnet_script unet_dynamo vfm_dynamo vit_script; do
    loss=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["loss"])' "../shared/zoo/$name/golden.json")
    build "remat_$name" "../shared/zoo/$name/model.onnx" --loss "$loss"
    link_with_built test/memory/arena.c "$scratch/$name" || { fail "$name: does not link"; continue; }
    printf '%-16s ' "$name"
    "$scratch/$name" 200 "${SEED:-1}" || fail "$name, seed ${SEED:-1}"
done
finish
