# bash test/bench/canaries.sh DISC_GEN [MODEL...]: what is looked at in every step, beside the step, on each model of ../shared/bench: guards and the
# checks of a batch (canaries.c), and in updates of weights whether what an element becomes is finite, by the processor's time of the program and of
# one that does not look, on one thread, in turn.  Above 1 % it fails.  ROUNDS: how often they do (3); STEPS of each model of a round: 16, of vfm 600.
disc_gen=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blas=/usr/lib/$(cc -print-multiarch)/openblas-openmp
failures=0
link() { # FOLDER PROGRAM
    make -s -C "$1" DEVICE=host >/dev/null 2>&1 && cc -std=gnu11 -O2 -I"$1" -c test/bench/canaries.c -o "$2.o" &&
        g++ -fopenmp -o "$2" "$2.o" $(find "$1/objects-host" -name '*.o' ! -name main.o) -L"$blas" -Wl,-rpath,"$blas" -lopenblas -lzip -lcjson \
            -lpthread -ldl -lm $([ "$(uname -m)" != x86_64 ] || echo -lmvec)
}
for model in "${@:-vfm lstm_ae resnet gpt2_10m gpt2_124m}"; do
    for name in $model; do
        folder=../shared/bench/$name out=$work/$name steps=16
        [ "$name" != vfm ] || steps=600
        python3 - "$folder" >"$work/options" <<'END' || exit 1
import json, os, re, sys
b = json.load(open(sys.argv[1] + "/bench.json"))
print(os.path.normpath(os.path.join(sys.argv[1], b["model"])))
print(b["loss"])
print("^(" + "|".join(map(re.escape, b["frozen"])) + ")$" if b["frozen"] else "")
print(b["init"] or "")
END
        { read -r onnx; read -r loss; read -r frozen; read -r init; } <"$work/options"
        more=()
        [ -z "$frozen" ] || more+=(--freeze "$frozen")
        [ -z "$init" ] || more+=(--init "$init")
        "$disc_gen" "$onnx" -o "$out" --loss "$loss" --optimizer adamw --no-report "${more[@]}" >/dev/null 2>&1 && link "$out" "$work/looks" &&
            sed -i -e 's/const bool finite = .*;/constexpr bool finite = true;/' "$out/model.cu" && link "$out" "$work/trusts" ||
            { echo "FAILED: $name: is not built"; failures=1; continue; }
        for round in $(seq "${ROUNDS:-3}"); do
            for program in looks trusts; do
                echo "$program $(OMP_NUM_THREADS=1 "$work/$program" "$folder/batches.safetensors" "$out/weights.safetensors" "$steps")" || failures=1
            done
        done >"$work/times"
        awk -v name="$name" '
            function lower(a, b) { return !a || b < a ? b : a }
            $1 == "looks" { checks = lower(checks, $2); step = lower(step, $3); with = lower(with, $4) }
            $1 == "trusts" { without = lower(without, $4) }
            END {
                if (!step || !with || !without) { print "FAILED: " name ": no figure"; exit 1 }
                share = 100 * checks / step; update = 100 * (with - without) / without
                printf "%s: a step of %.0f us: %.2f us of checks (%.3f %%), updates that look take %+.2f %% of it more\n", name, step, checks, share, update
                if (share + update > 1) { print "FAILED: " name ": more than 1 %"; exit 1 }
            }' "$work/times" || failures=1
        rm -rf "$out"
    done
done
exit $failures
