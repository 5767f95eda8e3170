# Labels and places out of range, those of a batch and those that a model computes (ranges.py).
. test/check.inc
. test/build.inc
python3 test/healing/ranges.py write "$scratch" || exit 1
build healing_labels "$scratch/labels.onnx" --optimizer sgd
check "labels" python3 test/healing/ranges.py labels "$built/trainer" "$scratch"
build healing_rows "$scratch/rows.onnx" --loss "mse(y)" --train scale --optimizer sgd
check "rows" python3 test/healing/ranges.py rows "$built/trainer" "$scratch"
check "next tokens" "$DISC_GEN" "$scratch/next.onnx" -o "$scratch/next" --loss "next_token(logits)" --no-report >"$scratch/said.out" 2>&1
check "a table of more rows than scores" grep -q '"0 <= ids < 7"' "$scratch/next/controller.c"
check "a table of more rows than scores" grep -q '"-11 <= ids < 11"' "$scratch/next/controller.c"
finish
