# Variants of a step: made beside the run, proven, swapped in; and all the ways in which that goes wrong (variants.py).
. test/check.inc
. test/build.inc
python3 test/healing/models.py "$scratch" || exit 1
build healing_varied "$scratch/window.onnx" --loss "mse(y)"
trainer=$built/trainer
python3 test/memory/row_blocks_model.py "$scratch" || exit 1
build healing_varied_rows "$scratch/model.onnx" --loss 'cross_entropy(scores, axis=-1)' --optimizer sgd
rm -rf "$scratch/both" && cp -rp "$(dirname "$trainer")" "$scratch/both" && rm -rf "$scratch/both/variants"
for one in 1 2; do make -s -C "$scratch/both" DEVICE=host variants/unfused.so >"$scratch/made.$one" 2>&1 & made[$one]=$!; done
for one in 1 2; do wait ${made[$one]} || fail "made twice at the same time: $(cat "$scratch/made.$one")"; done
check "one file is left" test "$(ls "$scratch/both/variants")" = unfused.so
check "variants" python3 test/healing/variants.py "$trainer" "$scratch" "$built/trainer"
finish
