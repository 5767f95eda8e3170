#!/usr/bin/env bash
# A virtual flow meter: from the sensors of simulated wells to what flows, trained on a stream in which sensors drop out.
# flow.sh DISC_GEN FOLDER [STEPS]     needs python3
set -euo pipefail
here=$(dirname "$0") disc_gen=$1 out=$2 steps=${3:-1200}
mkdir -p "$out"
python3 "$here/flow.py" make "$out"
"$disc_gen" "$here/../flow.onnx" -o "$out/trainer" --loss "mse(linear_1)" --dim time=8..48~24 >/dev/null
"$disc_gen" "$here/../flow.onnx" -o "$out/runner" --inference >/dev/null
make -s -C "$out/trainer" DEVICE="${DEVICE:-host}" && make -s -C "$out/runner" DEVICE="${DEVICE:-host}"
"$out/trainer/trainer" --batch-file "$out/train.safetensors" --steps "$steps" --lr 3e-3 --max-skipped 6% --quarantine "$out/set_aside" --log "$out/log.jsonl" \
    --save-weights "$out/weights.safetensors" --progress never
"$out/runner/runner" --inputs "$out/test.safetensors" --load-weights "$out/weights.safetensors" --outputs "$out/made.safetensors"
python3 "$here/flow.py" score "$out"
echo "picture: $out/rates.svg"
