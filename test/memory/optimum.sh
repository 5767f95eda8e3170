# Plans against the exact optimum, which HiGHS finds: 24 training steps made at random and six of small models (test/memory/optimum.c,
# optimum.py).  Prints the table.
. test/check.inc
. test/build.inc
python=$TEST_OUT/highs/bin/python
[ -x "$python" ] || { python3 -m venv "$TEST_OUT/highs" && "$TEST_OUT/highs/bin/pip" install -q highspy; } >"$scratch/install" 2>&1
"$python" -c 'import highspy' 2>/dev/null || { echo "skipped: highspy is not installed"; exit 77; }

planner="flow simulate ladder search offsets realise planner"
cc -std=gnu11 -O2 ${SANITIZERS-} -Iruntime/controller test/memory/optimum.c $(printf "runtime/controller/%s.c " $planner) -lm -o "$scratch/optimum" || { echo "FAILED: does not link"; exit 1; }
named() { sed "s/^{/{\"name\": \"$1\", /" >>"$scratch/steps.jsonl"; }
for i in 1 2 3 4 5 6 7 8; do
    for step in "chain $((4 + i)) $i" "residual $((5 + i % 4)) $((10 + i))" "random $((5 + i % 4)) $((20 + i))"; do
        "$scratch/optimum" $step | named "$step" || fail "$step"
    done
done

python3 test/memory/optimum_models.py "$scratch" || fail "the models"
for name in tanh residual softmax; do
    build "optimum_$name" "$scratch/$name.onnx" --loss 'mse(out)' --optimizer sgd
    link_with_built test/memory/optimum.c "$scratch/$name" || { fail "$name: does not link"; continue; }
    for batch in 512 20000; do "$scratch/$name" batch=$batch | named "$name, batch $batch" || fail "$name"; done
done
"$python" test/memory/optimum.py "$scratch/steps.jsonl" || fail "plans cost more than the optimum allows"
finish
