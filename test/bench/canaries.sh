# bash test/bench/canaries.sh DISC_GEN [MODEL...]: what guards and canaries take of a step, on each model of ../shared/bench: guards and the checks of
# a batch on arrival, and in updates of weights the look whether what an element becomes is finite.  One program does steps with them and without,
# in turn (canaries.c); above 1 % it fails.  SECONDS_EACH: how long it does (20); THREADS: with how many (1).
disc_gen=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blas=/usr/lib/$(cc -print-multiarch)/openblas-openmp
failures=0

# Puts the second form of updates (canaries.h) into a model.cu.
in_two_forms() { # MODEL.CU
    local looks
    looks=$(grep -c 'const bool finite = ' "$1") || return 1
    sed -i -e '0,/^#include "runtime\/controller\/step.h"/s//&\n#include "canaries.h"/' \
        -e 's/const bool finite = \(.*\);/const bool finite = trusts<Index> || (\1);/' "$1"
    [ "$(grep -c 'trusts<Index> ||' "$1")" = "$looks" ] && grep -q '^#include "canaries.h"' "$1"
}

link() { # FOLDER PROGRAM
    cp test/bench/canaries.h "$1" && make -s -C "$1" DEVICE=host >/dev/null 2>&1
    find "$1/objects-host" -name '*.o' ! -name main.o >"$2.objects"
    cc -std=gnu11 -O2 -I"$1" -c test/bench/canaries.c -o "$2.o" &&
        g++ -fopenmp -o "$2" "$2.o" $(cat "$2.objects") -Wl,--wrap=arrival_read,--wrap=guards_first_broken -L"$blas" -Wl,-rpath,"$blas" \
            -lopenblas -lzip -lcjson -lpthread -ldl -lm $([ "$(uname -m)" != x86_64 ] || echo -lmvec)
}

for model in "${@:-vfm lstm_ae resnet gpt2_10m gpt2_124m}"; do
    for name in $model; do
        folder=../shared/bench/$name out=$work/$name
        python3 - "$folder" >"$work/options" <<'PYTHON' || exit 1
import json, os, re, sys
b = json.load(open(sys.argv[1] + "/bench.json"))
print(os.path.normpath(os.path.join(sys.argv[1], b["model"])))
print(b["loss"])
print("^(" + "|".join(map(re.escape, b["frozen"])) + ")$" if b["frozen"] else "")
print(b["init"] or "")
PYTHON
        { read -r onnx; read -r loss; read -r frozen; read -r init; } <"$work/options"
        more=()
        [ -z "$frozen" ] || more+=(--freeze "$frozen")
        [ -z "$init" ] || more+=(--init "$init")
        "$disc_gen" "$onnx" -o "$out" --loss "$loss" --optimizer adamw --no-report "${more[@]}" >/dev/null 2>&1 &&
            in_two_forms "$out/model.cu" && link "$out" "$work/canaries" || { echo "FAILED: $name: is not built"; failures=1; continue; }
        OMP_NUM_THREADS=${THREADS:-1} "$work/canaries" "$folder/batches.safetensors" "$out/weights.safetensors" "${SECONDS_EACH:-20}" >"$work/times" ||
            failures=1
        awk -v name="$name" '
            { found = 1; step = $1; checks = $3; updates = $5; error = $6; whole = $7; whole_error = $8; pairs = $9 }
            END {
                if (!found || !step) { print "FAILED: " name ": no figure"; exit 1 }
                printf "%s: a step of %.1f us: %.2f us of checks (%.2f %%), %.2f of looking in updates (%.2f %% +- %.2f): %.2f %%; whole steps differ by %.2f %% +- %.2f (%d pairs)\n",
                    name, step, checks, 100 * checks / step, updates, 100 * updates / step, 100 * error / step, 100 * (checks + updates) / step,
                    100 * whole / step, 100 * whole_error / step, pairs
                if (checks + updates > step / 100) { print "FAILED: " name ": more than 1 %"; exit 1 }
            }' "$work/times" || failures=1
        rm -rf "$out"
    done
done
exit $failures
