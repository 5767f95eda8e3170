# bash test/bench/canaries.sh DISC_GEN [MODEL...]: what guards and the checks of a batch cost beside a step, on each model of ../shared/bench
# (canaries.c).  Above 1 % it fails.
disc_gen=$1
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
blas=/usr/lib/$(cc -print-multiarch)/openblas-openmp
failures=0
for model in "${@:-vfm lstm_ae resnet gpt2_10m gpt2_124m}"; do
    for name in $model; do
        folder=../shared/bench/$name out=$work/$name
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
        "$disc_gen" "$onnx" -o "$out" --loss "$loss" --optimizer adamw --no-report "${more[@]}" >/dev/null 2>&1 && make -s -C "$out" DEVICE=host >/dev/null 2>&1 &&
            cc -std=gnu11 -O2 -I"$out" -c test/bench/canaries.c -o "$work/canaries.o" &&
            g++ -fopenmp -o "$work/canaries" "$work/canaries.o" $(find "$out/objects-host" -name '*.o' ! -name main.o) -L"$blas" -Wl,-rpath,"$blas" -lopenblas -lzip -lcjson \
                -lpthread -ldl -lm $([ "$(uname -m)" != x86_64 ] || echo -lmvec) || { echo "FAILED: $name: is not built"; failures=1; continue; }
        said=$("$work/canaries" "$folder/batches.safetensors" "$out/weights.safetensors" 16) || failures=1
        echo "$name: $said"
        awk -v share="$(echo "$said" | sed 's/.*: \([0-9.]*\) %/\1/')" 'BEGIN { exit !(share ~ /^[0-9.]+$/ && share + 0 <= 1) }' || { echo "FAILED: $name: more than 1 %, or no figure"; failures=1; }
        rm -rf "$out"
    done
done
exit $failures
