#!/usr/bin/env bash
# The demonstration: models/letters.onnx, a small GPT over bytes, learns this project's own source, and writes a few lines of it.
# From `make demo`; works in out/demo.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=out/demo
steps=${STEPS:-600}
mkdir -p $out

echo "== batches of many lengths, from the source of this project"
cc -O2 -o $out/batches models/demo/batches.c
$out/batches $out/text.safetensors "$steps" generator/*.c generator/*/*.c runtime/*/*.c

echo "== disc-gen models/letters.onnx -o $out/letters"
bin/disc-gen models/letters.onnx -o $out/letters --loss "next_token(logits)" --dim seq=1..256~96 --dim batch=1..512~20

echo "== make -C $out/letters"
make -s -j2 -C $out/letters

echo "== trainer: $steps steps, each of its own shape"
$out/letters/trainer --batch-file $out/text.safetensors --steps "$steps" --lr 2e-3 --log $out/log.jsonl --save-weights $out/trained.safetensors

echo "== what it writes now"
objects=$(ls -d $out/letters/objects-*)
link=$(case $objects in *cuda) echo "${NVCC:-nvcc} -lcublas -lcublasLt" ;; *) d=/usr/lib/$(cc -print-multiarch)/openblas-openmp; echo "g++ -fopenmp -L$d -Wl,-rpath,$d -lopenblas -lmvec" ;; esac)
cc -O2 -I$out/letters -c -o $out/sample.o models/demo/sample.c
set -- $link
"$1" $out/sample.o $(find "$objects" -name '*.o' ! -name main.o) "${@:2}" -lzip -lcjson -lpthread -ldl -lm -o $out/sample
$out/sample $out/trained.safetensors "static int " 240
echo
echo "The program that did this: $out/letters/model.cu"
