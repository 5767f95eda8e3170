# --export: the model as it came with the weights of the run.  Before any step all its tensors are those of the file, bit for bit; after some
# they are what --save-weights has, each in the model's type, under the name that its readers read; what is exported is read again.
. test/check.inc
. test/build.inc
python3 test/trainer/export.py make "$scratch" || exit 1
python3 test/memory/budget.py "$scratch"

run() { "$@" --progress never --variants off >"$scratch/said.out" 2>&1 || fail "$*: $(cat "$scratch/said.out")"; }
exports() { # NAME MODEL BATCHES ties
    local name=$1 model=$2 batches=$3 out=$scratch/$1
    shift 3
    run "$built/trainer" --batch-file "$batches" --steps 0 --export "$out.0.onnx"
    check "$name: untouched before a step" python3 test/trainer/export.py untouched "$model" "$out.0.onnx"
    for k in 1 2; do run "$built/trainer" --batch-file "$batches" --steps 6 --lr 0.05 --export "$out.$k.onnx" --save-weights "$out.safetensors"; done
    check "$name: twice the same bytes" cmp "$out.1.onnx" "$out.2.onnx"
    check "$name: weights of the run" python3 test/trainer/export.py weights "$out.1.onnx" "$out.safetensors" "$@"
    run "$built/trainer" --batch-file "$batches" --steps 0 --load-weights "$out.safetensors" --export "$out.3.onnx" --export-limit 100
    if [ -s "$out.1.onnx.data" ]; then fail "$name: weights lie in another file"; fi
    [ $(stat -c %s "$out.3.onnx") -lt $(stat -c %s "$out.1.onnx") ] || fail "$name: weights do not lie in another file"
    check "$name: weights beside the model" python3 test/trainer/export.py weights "$out.3.onnx" "$out.safetensors" "$@"
}

# norms that were separated, a Constant, data in another file, a transposed tie, a tensor that is a part of another, a softmax that the loss takes over
build export_kinds "$scratch/kinds.onnx" --loss "cross_entropy(y, axis=1)"
exports kinds "$scratch/kinds.onnx" "$scratch/batches.safetensors" head=embedding slice_1=inner:4:32:1
python3 - "$scratch" <<'END' || fail "norms do not read gains of their own, or the softmax is gone"
import sys
sys.path.insert(0, "test/trainer")
import export
_, nodes, found = export.read(sys.argv[1] + "/kinds.1.onnx")
norms = [inputs for op, inputs, _, _ in nodes if op == "LayerNormalization"]
assert [n[1:] for n in norms] == [["ones#norm_1", "zeros#norm_1"], ["ones#norm_2", "zeros#norm_2"]], norms
assert found["ones#norm_1"] != found["ones#norm_2"] and nodes[-1][0] == "Softmax"
END

# types that are not the program's
for name in half double; do
    build export_$name "$scratch/$name.onnx" --loss "cross_entropy(y, axis=1)"
    exports $name "$scratch/$name.onnx" "$scratch/batches.safetensors"
done
build export_kinds64 "$scratch/kinds.onnx" --loss "cross_entropy(y, axis=1)" --precision fp64
run "$built/trainer" --batch-file "$scratch/batches.safetensors" --steps 0 --export "$scratch/wide.onnx"
run "$built/trainer" --batch-file "$scratch/batches.safetensors" --check-gradients
check "in double precision the model's type stays" python3 test/trainer/export.py untouched "$scratch/kinds.onnx" "$scratch/wide.onnx"

build export_sparse "$scratch/sparse.onnx" --loss "cross_entropy(y, axis=1)"
run "$built/trainer" --batch-file "$scratch/batches.safetensors" --steps 3 --export "$scratch/dense.onnx" --save-weights "$scratch/dense.safetensors"
check "a sparse tensor becomes dense" python3 test/trainer/export.py weights "$scratch/dense.onnx" "$scratch/dense.safetensors"
python3 - "$scratch/dense.onnx" <<'END' || fail "IR 3: separated tensors are no inputs"
import sys
sys.path.insert(0, "test/trainer")
import export as e
with open(sys.argv[1], "rb") as f: g = e.first(f.read(), 7)
inputs = {e.first(i, 1).decode() for i in e.every(g, 11)}
assert {"ones#norm_1", "zeros#norm_2"} < inputs and not e.every(g, 15), inputs
END

# as exported for training, and made ready to serve: what is evaluated is the same, running statistics included
build export_noisy "$scratch/noisy.onnx" --loss "cross_entropy(y, axis=1)"
exports noisy "$scratch/noisy.onnx" "$scratch/batches.safetensors"
evaluated() { "$1" --batch-file "$scratch/batches.safetensors" --evaluate --json 2>"$scratch/said.err" | tail -1; }
trained="$built/trainer --batch-file $scratch/batches.safetensors --steps 0 --load-weights $scratch/noisy.safetensors"
run $trained --export "$scratch/serve.onnx" --export-mode inference
python3 - "$scratch" <<'END' || fail "norm and dropout are not as at inference"
import sys
sys.path.insert(0, "test/trainer")
import export
for name, wanted in ("noisy.1", ([5, 3, 1], [3, 1, 0])), ("serve", ([5, 1, 0], [2, 1, 0])):
    nodes = export.read("%s/%s.onnx" % (sys.argv[1], name))[1]
    found = [[len(i), len(o), len(a)] for op, i, o, a in nodes if op != "MatMul"]
    assert found == list(wanted), (name, found)
END
loss=$("$built/trainer" --batch-file "$scratch/batches.safetensors" --evaluate --json --load-weights "$scratch/noisy.safetensors" 2>"$scratch/said.err" | tail -1)
build export_serve "$scratch/serve.onnx" --loss "cross_entropy(y, axis=1)"
[ -n "$loss" ] && [ "$loss" = "$(evaluated "$built/trainer")" ] || fail "served: $(evaluated "$built/trainer"), evaluated: $loss"

# weights that a rule made
cp "$scratch/kinds.onnx" "$scratch/ruled.onnx"
sed -i 's/kinds\.bin/gone\.binn/' "$scratch/ruled.onnx"
build export_ruled "$scratch/ruled.onnx" --loss "cross_entropy(y, axis=1)" --init "normal(0.02)"
run "$built/trainer" --batch-file "$scratch/batches.safetensors" --steps 2 --export "$scratch/made.onnx" --save-weights "$scratch/made.safetensors"
check "weights by rule" python3 test/trainer/export.py weights "$scratch/made.onnx" "$scratch/made.safetensors" head=embedding

# a model of the project, read again: the loss and the outputs that the saved weights give
build letters models/letters.onnx
exports exported models/letters.onnx "$scratch/letters.safetensors"
said() { "$@" 2>"$scratch/said.err" | tail -1; }
loss=$(said "$built/trainer" --batch-file "$scratch/letters.safetensors" --evaluate --json --load-weights "$scratch/exported.safetensors")
build export_again "$scratch/exported.1.onnx"
again=$(said "$built/trainer" --batch-file "$scratch/letters.safetensors" --evaluate --json)
[ -n "$loss" ] && [ "$loss" = "$again" ] || fail "evaluated: $loss with the weights, $again from the exported model"
python3 -c '
import sys
sys.path.insert(0, "test/support")
import tensors as t
t.safetensors(sys.argv[1], {"input_ids": ("I64", [2, 11], t.Random(4).ints(22, 128))})' "$scratch/text.safetensors"
for model in models/letters.onnx "$scratch/exported.1.onnx"; do
    "$DISC_GEN" "$model" --inference -o "$scratch/runner" >"$scratch/said.out" 2>&1 || fail "disc-gen --inference $model"
    [ -d "$scratch/runner/$host_objects" ] || { mkdir "$scratch/runner/$host_objects" && cp -r "$built/$host_objects/runtime" "$scratch/runner/$host_objects/"; }
    check "make" make -s -C "$scratch/runner" DEVICE=host >"$scratch/said.out" 2>&1
    if [ "$model" = models/letters.onnx ]; then with="--load-weights $scratch/exported.safetensors"; else with=; fi
    # shellcheck disable=SC2086  # two words
    check "runs" "$scratch/runner/runner" --inputs "$scratch/text.safetensors" --outputs "$scratch/$(basename "$model").outputs" $with
done
check "outputs of the exported model" cmp "$scratch/letters.onnx.outputs" "$scratch/exported.1.onnx.outputs"

build export_kinds "$scratch/kinds.onnx" --loss "cross_entropy(y, axis=1)"
t="$built/trainer --batch-file $scratch/batches.safetensors --progress never --steps 1"
expect "over the skeleton" 2 $t --export "$built/skeleton.onnx"
expect "no such folder" 2 $t --export "$scratch/none/model.onnx"
expect "a limit of nothing" 2 $t --export-limit 1K
expect "with --evaluate" 2 $built/trainer --batch-file "$scratch/batches.safetensors" --evaluate --export "$scratch/model.onnx"
mv "$built/skeleton.onnx" "$scratch/skeleton.onnx"
expect "no skeleton" 2 $t --export "$scratch/model.onnx"
head -c 500 "$scratch/skeleton.onnx" >"$built/skeleton.onnx"
expect "half a skeleton" 2 $t --export "$scratch/model.onnx"
cp "$TEST_OUT/built/export_half/skeleton.onnx" "$built/skeleton.onnx"
expect "the skeleton of another" 2 $t --export "$scratch/model.onnx"
cp "$scratch/kinds.1.onnx" "$built/skeleton.onnx"
expect "a model with its data" 2 $t --export "$scratch/model.onnx"
mv "$scratch/skeleton.onnx" "$built/skeleton.onnx"
if ls "$scratch"/model.onnx* >/dev/null 2>&1; then fail "a file was left behind"; fi
"$DISC_GEN" "$scratch/function.onnx" -o "$scratch/function" --loss "cross_entropy(y, axis=1)" 2>&1 | sed -n 's/^disc-gen: note: the trainer/the trainer/p' >>"$scratch/messages"
if [ -e "$scratch/function/skeleton.onnx" ]; then fail "a skeleton of what cannot be exported"; fi
finish
