# Kernels of each model of ../shared/zoo made to fail, and to leave garbage, in turn (test/healing/fallback.py): KERNELS of them, 0 for all, drawn
# by SEED.  MODELS: of those alone.
scratch=$TEST_OUT/long.fallback
failures=0
mkdir -p "$scratch"
[ -d ../shared/zoo ] || { echo "skipped: ../shared/zoo is not there"; exit 77; }
for model in ${MODELS:-gpt2_dynamo llama_dynamo bert_script lstm_ae_dynamo resnet_script vit_script unet_dynamo moe_dynamo vfm_dynamo}; do
    folder=../shared/zoo/$model out=$scratch/$model
    python3 - "$folder/golden.json" >"$scratch/options" <<'END' || exit 1
import json, re, sys
golden = json.load(open(sys.argv[1]))
print(golden["loss"])
print("^(" + "|".join(map(re.escape, golden.get("frozen") or ["nothing at all"])) + ")$")
END
    { read -r loss; read -r frozen; } <"$scratch/options"
    case $frozen in *nothing*) freeze=() ;; *) freeze=(--freeze "$frozen") ;; esac
    "$DISC_GEN" "$folder/model.onnx" -o "$out" --loss "$loss" --no-report "${freeze[@]}" >"$out.said" 2>&1 &&
        make -s -C "$out" DEVICE=host CFLAGS=-O0 'HOST_FLAGS=-std=c++17 -O1 -march=native -fopenmp' >>"$out.said" 2>&1 &&
        make -s -C "$out" DEVICE=host 'HOST_FLAGS=-std=c++17 -O1 -march=native -fopenmp' variants/unfused.so >>"$out.said" 2>&1 ||
        { tail -3 "$out.said"; echo "FAILED: $model: is not built"; failures=1; continue; }
    mkdir -p "$out/run"
    python3 test/healing/fallback.py "$out/trainer" "$folder/golden.safetensors" "$out/run" 2 "${KERNELS:-8}" "${SEED:-1}" >"$out.result" || failures=1
    sed "s|^|$model: |" "$out.result"
    rm -rf "$out"
done
exit $failures
