# --trace-nan names the node that made the first NaN: of a loss, whose batch is set aside, and of a gradient, where the weight keeps what it
# had (finite.sh has more of these).
. test/check.inc
. test/build.inc
python3 test/healing/models.py "$scratch" || exit 1
batches() { python3 test/models/batches.py "$scratch/$1.safetensors" "${@:2}"; }
build healing_log "$scratch/log.onnx" --loss "mse(y)" --no-fuse # a kernel a node, so that the node is named exactly
log=$built/trainer
build healing_arcsine "$scratch/arcsine.onnx" --loss "mse(y)" --optimizer sgd
arcsine=$built/trainer

# e^x0 + e^x1 / 2 + e^x2 / 2 - e^x3
python3 - "$scratch" <<'END'
import sys
sys.path.insert(0, "test/support")
import tensors as t
def rows(*x): return {"x": ("F32", [len(x), 4], [v for row in x for v in row]), "target": ("F32", [len(x), 1], [0.25] * len(x))}
def stream(name, *batches): t.safetensors("%s/%s" % (sys.argv[1], name), {"step%d.%s" % (k, n): v for k, b in enumerate(batches) for n, v in b.items()})
good = rows([0, 0, 0, 0], [1, 0, 0, 0])
stream("log_nan", good, rows([0, 0, 0, 0], [0, 0, 0, 3]), good)
small = rows([0.1, 0, 0.2, 0])
stream("arcsine", small, rows([1, 0, 0, 0]), small)
END
nan() { python3 - "$scratch/log" "$@"; }
said() { grep -q "$1" "$scratch/said.err" || fail "$2: said $(cat "$scratch/said.err")"; }

check "a loss" "$log" --batch-file "$scratch/log_nan" --trace-nan --max-skipped 50% --progress never --log "$scratch/log" 2>"$scratch/said.err" >"$scratch/said.out"
said 'step 1: the first NaN was made by "/log"' "a loss"
check "a loss: events" nan '[("nan", 1, "/log"), ("set_aside", 1, None), ("summary", None, None)]' <<'END'
import json, sys
found = [(e["event"], e.get("step"), e.get("node")) for e in map(json.loads, open(sys.argv[1])) if "event" in e]
assert found == eval(sys.argv[2]), found
END
"$log" --batch-file "$scratch/log_nan" --max-skipped 50% --progress never --log "$scratch/plain" >"$scratch/said.out" 2>"$scratch/said.err" || fail "a loss, not traced"
check "tracing changes no loss" cmp <(grep -o '"loss":[^,]*' "$scratch/log") <(grep -o '"loss":[^,]*' "$scratch/plain")

gradient() { # more options
    expect "a gradient${1:+, $1}" 0 "$arcsine" --batch-file "$scratch/arcsine" --lr 0 --steps 3 --max-skipped 50% --progress never --log "$scratch/log" "$@"
}
gradient
check "a gradient: events, not traced" nan '[("trained_in_part", "/fc"), ("summary", None)]' <<'END'
import json, sys
found = [(e["event"], e.get("node")) for e in map(json.loads, open(sys.argv[1])) if "event" in e]
assert found == eval(sys.argv[2]), found
END
gradient --trace-nan
check "a gradient: events" nan '/fc' <<'END'
import json, sys
found = [(e["event"], e.get("node")) for e in map(json.loads, open(sys.argv[1])) if "event" in e]
assert [e for e, _ in found] == ["nan", "trained_in_part", "summary"] and sys.argv[2] in found[0][1], found
END
finish
