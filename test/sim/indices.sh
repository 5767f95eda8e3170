# Kernels in two forms, with 32-bit and with 64-bit indices: a guard over the dims chooses; with its limit lowered the form changes in the
# middle of a run; weights are the same bit for bit, whatever was chosen.  Sizes past 2^31 are planned for and take the wide form.
. test/check.inc
. test/build.inc
build letters models/letters.onnx
simulate
python3 - "$scratch" <<'END' || exit 1
import sys
sys.path.insert(0, "test/support")
import tensors as t
r = t.Random(5)
t.safetensors(sys.argv[1] + "/stream", {"step%d.input_ids" % k: ("I64", [b, n], r.ints(b * n, 128)) for k, (b, n) in enumerate(((1, 9), (2, 5), (1, 8), (3, 4)))})
END

limited() { # LIMIT: the same program with another limit; sets $limited
    local folder=$built/$sim_objects
    limited=$built/trainer.limit$1
    (
        flock 9 # other tests take these objects
        cp "$folder/controller.o" "$scratch/controller.o"
        rm "$folder/controller.o"
        make -s -C "$built" DEVICE=sim CFLAGS="-O2 -DINDEX_LIMIT=$1" "$sim_objects/trainer" >"$scratch/said.out" 2>&1 &&
            mv "$folder/trainer" "$limited"
        made=$?
        mv "$scratch/controller.o" "$folder/controller.o"
        exit $made
    ) 9>"$built.lock" || fail "limit $1: $(cat "$scratch/said.out")"
}
run() { # TRAINER NAME
    DISC_SIM=seed=1,threads=64 "$1" --batch-file "$scratch/stream" --steps 4 --progress never --save-weights "$scratch/$2.weights" --log "$scratch/$2.log" \
        >"$scratch/said.out" 2>&1 || fail "$2: $(cat "$scratch/said.out")"
}
run "$simulated" narrow
limited 3600 # of 384 indices a token: 9 and 8 tokens are within it, 10 and 12 are not
run "$limited" changing
limited 1
run "$limited" wide
check "narrow and wide, the same weights" cmp "$scratch/narrow.weights" "$scratch/wide.weights"
check "changing, the same weights" cmp "$scratch/narrow.weights" "$scratch/changing.weights"
check "the same losses, and the events of the guard" python3 - "$scratch" <<'END'
import json, sys
read = lambda name: [json.loads(x) for x in open("%s/%s.log" % (sys.argv[1], name))]
losses = lambda log: [x["loss"] for x in log if "loss" in x]
events = lambda log: [(x["event"], x["step"], x["guard"]) for x in log if x.get("guard", "").endswith("_indices")]
narrow, changing, wide = read("narrow"), read("changing"), read("wide")
assert losses(narrow) == losses(changing) == losses(wide) and len(losses(narrow)) == 4, (losses(narrow), losses(changing))
assert events(narrow) == [], events(narrow)
assert events(changing) == [("other_form", 1, "train_indices"), ("other_form", 3, "train_indices")], events(changing)
assert events(wide) == [("other_form", 0, "train_indices")], events(wide)
END

plan() { # BATCH
    "$built/trainer" --plan --dim "batch=$1" --dim seq=64 2>&1
}
check "1.87e9 indices" grep -q "indices of 32 bits" <(plan 76000)
check "2.2e9 indices" grep -q "indices of 64 bits on CUDA: train_indices does not hold: .*384\*batch\*seq <= INDEX_LIMIT" <(plan 90000)
[ $failures = 0 ]
