#!/usr/bin/env bash
# Two worked examples, trained on streams in which sensors drop out, each a minute.  sensors.sh EXAMPLE DISC_GEN FOLDER [STEPS [RECORDING.csv]]
# needs python3
#   flow    a virtual flow meter: from the sensors of wells to what flows
#   tracks  finds odd vehicle tracks: an LSTM autoencoder learns what usual ones look like and reconstructs the odd ones badly; simulated, or windows of a recording of accelerometers
set -euo pipefail
here=$(dirname "$0") example=$1 disc_gen=$2 out=$3
case $example in
flow) generate=(--loss "mse(linear_1)" --dim time=8..48~24) steps=1200 skipped=6% picture=rates.svg ;;
tracks) generate=(--loss "mse(linear)") steps=1500 skipped=5% picture=errors.svg ;;
*) echo "sensors.sh: $example is neither flow nor tracks" >&2; exit 2 ;;
esac
mkdir -p "$out"
python3 "$here/$example.py" make "$out" "${@:5}"
"$disc_gen" "$here/../$example.onnx" -o "$out/trainer" "${generate[@]}" >/dev/null
"$disc_gen" "$here/../$example.onnx" -o "$out/runner" --inference >/dev/null
make -s -C "$out/trainer" DEVICE="${DEVICE:-host}" && make -s -C "$out/runner" DEVICE="${DEVICE:-host}"
"$out/trainer/trainer" --batch-file "$out/train.safetensors" --steps "${4:-$steps}" --lr 3e-3 --max-skipped $skipped --quarantine "$out/set_aside" \
    --log "$out/log.jsonl" --save-weights "$out/weights.safetensors" --progress never
"$out/runner/runner" --inputs "$out/test.safetensors" --load-weights "$out/weights.safetensors" --outputs "$out/made.safetensors"
python3 "$here/$example.py" score "$out"
echo "picture: $out/$picture"
