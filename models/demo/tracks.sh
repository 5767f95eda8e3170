#!/usr/bin/env bash
# Finds odd tracks among simulated ones: an LSTM autoencoder learns what usual tracks look like, from a stream in which sensors drop out, and
# reconstructs the odd ones badly.  tracks.sh DISC_GEN FOLDER [STEPS]     needs python3
set -euo pipefail
here=$(dirname "$0") disc_gen=$1 out=$2 steps=${3:-1500}
mkdir -p "$out"
python3 "$here/tracks.py" make "$out"
"$disc_gen" "$here/../tracks.onnx" -o "$out/trainer" --loss "mse(linear)" >/dev/null
"$disc_gen" "$here/../tracks.onnx" -o "$out/runner" --inference >/dev/null
make -s -C "$out/trainer" DEVICE="${DEVICE:-host}" && make -s -C "$out/runner" DEVICE="${DEVICE:-host}"
"$out/trainer/trainer" --batch-file "$out/train.safetensors" --steps "$steps" --lr 3e-3 --max-skipped 5% --quarantine "$out/set_aside" --log "$out/log.jsonl" \
    --save-weights "$out/weights.safetensors" --progress never
"$out/runner/runner" --inputs "$out/test.safetensors" --load-weights "$out/weights.safetensors" --outputs "$out/made.safetensors"
python3 "$here/tracks.py" score "$out"
echo "picture: $out/errors.svg"
