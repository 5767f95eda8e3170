# Utterances of 7 to 26 steps, a program that was told 7 to 20: the longer ones break the guard of that range and are planned for at once;
# losses, weights and accuracy on held-out utterances are those of a program that was told 7 to 29.
zoo=../shared/zoo/vowels_real
[ -d $zoo ] || { echo "skipped: $zoo is not there"; exit 77; }
. test/check.inc
. test/build.inc
python3 - "$zoo" >"$scratch/settings" <<'END'
import json, re, sys
r = json.load(open(sys.argv[1] + "/run.json"))
print(r["loss"], "^(%s)$" % "|".join(map(re.escape, r["frozen"])) if r["frozen"] else "", r["steps"], r["lr"], r["weight_decay"], sep="\n")
END
mapfile -t set <"$scratch/settings"
time=$("$DISC_GEN" $zoo/model.onnx -o "$scratch/dims" --loss "${set[0]}" >/dev/null 2>&1; sed -n 's/^ \* dims .*, \([a-z_0-9]*\) >= .*/\1/p; s/^ \* dims .*, \([a-z_0-9]*\) [0-9]*\.\..*/\1/p' "$scratch/dims/model.cu" | head -1)
for range in 7..20 7..29; do
    build "healing_vowels_$range" $zoo/model.onnx --loss "${set[0]}" ${set[1]:+--freeze "${set[1]}"} --dim "$time=$range"
    "$built/trainer" --batch-file $zoo/batches.safetensors --steps "${set[2]}" --lr "${set[3]}" --weight-decay "${set[4]}" --progress never --log "$scratch/$range.log" \
        --save-weights "$scratch/$range.weights" >"$scratch/said.out" 2>&1 || fail "$range: $(cat "$scratch/said.out")"
    "$built/trainer" --evaluate --batch-file $zoo/test.safetensors --load-weights "$scratch/$range.weights" --json 2>/dev/null | tail -1 >"$scratch/$range.accuracy"
done
check "the same weights" cmp "$scratch/7..20.weights" "$scratch/7..29.weights"
check "the same accuracy" cmp "$scratch/7..20.accuracy" "$scratch/7..29.accuracy"
check "the same losses, and the events of the range" python3 - "$scratch" "$time" <<'END'
import json, sys
scratch, name = sys.argv[1:]
narrow, wide = ([json.loads(x) for x in open("%s/%s.log" % (scratch, r))] for r in ("7..20", "7..29"))
steps = [x for x in narrow if "loss" in x]
assert [x["loss"] for x in steps] == [x["loss"] for x in wide if "loss" in x]
longer = [x["step"] for x in steps if x["dims"][name] > 20]
events = [(x["step"], x["guard"]) for x in narrow if x.get("event") == "planned_again"]
assert longer and events == [(s, name + "_range") for s in longer], (len(longer), events[:5])
assert not [x for x in wide if "event" in x]
print("%d of %d batches were longer than declared" % (len(longer), len(steps)))
END
finish
