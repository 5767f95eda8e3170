# A GPU machine's test, under ten minutes: make test DEVICE=cuda.  Every kind of kernel against the interpreter, the project's models
# against the host build, the zoo against PyTorch's figures and the bench models' times where ../shared is; prints a table.
#
#   DEVICE=host bash test/gpu/gpu.sh     the same with the processor in the GPU's place: checks this script
#   ZOO="moe_dynamo" BENCH="vfm"         only these of ../shared/zoo and ../shared/bench
device=${DEVICE:-cuda}
if [ "$device" = cuda ]; then
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "skipped: nvcc is not here"; exit 77; }
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n '1s/\./''/p')
    [ -n "$arch" ] || { echo "skipped: nvidia-smi shows no GPU"; exit 77; }
fi
export DISC_GEN TEST_OUT device work=$TEST_OUT/gpu.$device
rm -rf "$work" && mkdir -p "$work"
jobs=$((($(nproc) + 1) / 2))
blas=$(ls -d /usr/lib/"$(cc -print-multiarch)"/openblas-openmp 2>/dev/null)
row() { printf '%-28s %-8s %s\n' "$1" "$2" "$3" | tee -a "$work/table"; }
export -f row

# ---- kernels ----
"$TEST_OUT/kernels" "$work" test/kernels/cases/*.ir || exit 1
if [ "$device" = cuda ]; then
    "$nvcc" -std=c++17 -O3 -arch=sm_$arch -Iruntime -Itest/kernels -diag-suppress 177,550 -o "$work/cases" "$work/cases.cu" runtime/device/{blas,conv}_cuda.cu -lcublas -lcublasLt
else
    include=/usr/include/$(cc -print-multiarch)/openblas-openmp
    g++ -std=c++17 -O2 -march=native -fopenmp -Iruntime -Itest/kernels -I"$include" -o "$work/cases" -x c++ "$work/cases.cu" runtime/device/{blas,conv,threads}_host.cpp \
        -x none -L"$blas" -Wl,-rpath,"$blas" -lopenblas -lmvec -lm
fi >"$work/cases.make" 2>&1 || { cat "$work/cases.make"; row kernels FAILED "they do not compile"; }
if "$work/cases" "$work/cases.bin" >"$work/cases.said" 2>&1; then result=ok; else result=FAILED; fi
row kernels $result "$(tail -1 "$work/cases.said")"

# ---- models: the first step's gradients, and the weights after two ----
python3 test/sim/batches.py "$work" || exit 1
model() {
    local name=$1 folder=$work/$1 where said
    for where in host "$device"; do
        rm -rf "$folder.$where"
        "$DISC_GEN" models/$name.onnx -o "$folder.$where" && make -s -C "$folder.$where" DEVICE=$where &&
            "$folder.$where/trainer" --batch-file "$work/$name.safetensors" --steps 2 --progress never --save-gradients "$folder.$where.gradients" ||
            { row "$name" FAILED "$where: $folder.said"; return; }
    done >"$folder.said" 2>&1
    said=$(python3 test/sim/compare.py "$folder.host.gradients" "$folder.$device.gradients" 1e-4) && row "$name" ok "$said" || row "$name" FAILED "$said"
}
# ---- steps launched as graphs, and kernel by kernel: the same bits, and what a step takes ----
graphs() {
    local folder=$work/letters.$device way said
    python3 test/models/batches.py "$work/graphs.safetensors" input_ids=ints20:8,100 || return
    for way in off auto; do
        "$folder/trainer" --batch-file "$work/graphs.safetensors" --steps 60 --progress never --graphs $way --log "$work/graphs.$way.jsonl" \
            --save-weights "$work/graphs.$way.weights" >"$work/graphs.said" 2>&1 || { row graphs FAILED "$(tail -1 "$work/graphs.said")"; return; }
    done
    cmp "$work"/graphs.{off,auto}.weights || { row graphs FAILED "other weights than without"; return; }
    said=$(python3 -c '
import json, statistics, sys
for way in "off", "auto":
    lines = [json.loads(x) for x in open("%s/graphs.%s.jsonl" % (sys.argv[1], way))]
    print("%s: %.3f ms a step, %d recorded" % (way, 1e3 * statistics.median([x["seconds"] for x in lines if "loss" in x][8:]), sum(x.get("event") == "graph_recorded" for x in lines)), end="; ")
    if sys.argv[2] == "cuda": assert any(x.get("event") == "graph_recorded" for x in lines) == (way == "auto"), "recorded where it should not be, or not where it should"
' "$work" "$device" 2>&1) && row graphs ok "$said" || row graphs FAILED "$(tail -1 <<<"$said")"
}

# ---- the zoo ----
zoo() {
    python3 ../shared/tools/check_golden.py ../shared/zoo/$1 --disc-gen "$DISC_GEN" --device $device --work "$work/zoo" >"$work/$1.said" 2>&1 &&
        row "$1" ok "$(head -1 "$work/$1.said" | cut -c1-150)" || row "$1" FAILED "$(tail -1 "$work/$1.said")"
}
export -f model zoo
mkdir -p "$work/zoo"
{
    printf 'model %s\n' letters flow tracks shapes
    if [ -d ../shared/zoo ]; then printf 'zoo %s\n' ${ZOO-$(cd ../shared/zoo && ls -d */golden.json | xargs -n1 dirname)}; fi
} | xargs -P "$jobs" -I{} bash -c '{}'
graphs

# ---- times: one after another, nothing else runs ----
bench() {
    local name=$1 folder=../shared/bench/$1 options median
    options=$(python3 - "$folder/bench.json" <<'END'
import json, re, shlex, sys
b = json.load(open(sys.argv[1]))
frozen = ["--freeze", "^(" + "|".join(map(re.escape, b["frozen"])) + ")$"] if b["frozen"] else []
print(shlex.join(["--loss", b["loss"]] + frozen + (["--init", b["init"]] if b["init"] else [])), b["model"], sep="\n")
END
    )
    eval "set -- $(head -1 <<<"$options")"
    {
        "$DISC_GEN" "$folder/$(tail -1 <<<"$options")" -o "$work/$name" --optimizer adamw "$@" && make -s -C "$work/$name" DEVICE=$device &&
            "$work/$name/trainer" --batch-file "$folder/batches.safetensors" --steps "${STEPS:-24}" --lr 1e-3 --log "$work/$name.jsonl" --progress never
    } >"$work/$name.said" 2>&1 || { row "$name" FAILED "$(tail -1 "$work/$name.said")"; return; }
    median=$(python3 -c '
import json, statistics, sys
s = [r["seconds"] for r in map(json.loads, open(sys.argv[1])) if "loss" in r][4:]
print("%.3f ms a step (median of %d)" % (1e3 * statistics.median(s), len(s)))' "$work/$name.jsonl") || { row "$name" FAILED "no times"; return; }
    row "$name" ok "$median"
}
if [ -d ../shared/bench ]; then
    for name in ${BENCH-$(cd ../shared/bench && ls -d */bench.json | xargs -n1 dirname)}; do bench "$name"; done
fi

echo "== $device, $((SECONDS / 60)) min $((SECONDS % 60)) s"
! grep -q ' FAILED ' "$work/table"
