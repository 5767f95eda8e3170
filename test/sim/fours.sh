# Images whose planes are no multiple of four elements, between others whose are: kernels that read and write four elements at a time take
# them one by one, nothing is set aside, the guard is told once, and the weights are those of the host build.
. test/check.inc
. test/build.inc
build shapes models/shapes.onnx
simulate
python3 - "$scratch" <<'END' || exit 1
import sys
sys.path.insert(0, "test/support")
import tensors as t
r = t.Random(5)
stream = {}
for k, (b, h, w) in enumerate(((2, 16, 16), (1, 5, 7), (1, 16, 20), (2, 3, 9))):
    stream["step%d.image" % k] = ("F32", [b, 1, h, w], r.reals(b * h * w))
    stream["step%d.target" % k] = ("I64", [b], r.ints(b, 4))
t.safetensors(sys.argv[1] + "/stream", stream)
END
run() { # TRAINER NAME
    DISC_SIM=seed=1,threads=64 "$1" --batch-file "$scratch/stream" --steps 4 --progress never --save-weights "$scratch/$2" --log "$scratch/$2.log" \
        >"$scratch/said.out" 2>&1 || fail "$2: $(cat "$scratch/said.out")"
}
run "$built/trainer" host
run "$simulated" sim
said=$(python3 test/sim/compare.py "$scratch/host" "$scratch/sim" 1e-4) || fail "$said"
echo "$said"
check "the guard's event" python3 - "$scratch/sim.log" <<'END'
import json, sys
log = [json.loads(x) for x in open(sys.argv[1])]
events = [(x["event"], x["step"], x["guard"]) for x in log if x.get("guard")]
assert len([x for x in log if "loss" in x]) == 4, log
assert ("other_form", 1, "sizes_in_fours") in events and all(e[0] == "other_form" for e in events), events
assert len(set(e[2] for e in events)) == len(events), events
END
check "the plan tells it" grep -q "elements one by one on CUDA, where sizes_in_fours does not hold: (height\*width) % 4 == 0" \
    <("$built/trainer" --plan --dim height=5 --dim width=7)
check "and nothing where it holds" sh -c "! \"$built/trainer\" --plan --dim height=16 --dim width=16 | grep 'one by one'"
[ $failures = 0 ]
