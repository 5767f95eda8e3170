# The test of a machine with a GPU, under ten minutes: make test DEVICE=cuda.  In this order, so that what is known soonest is worth most:
#
#   probe     driver, a kernel, cuBLAS: whether anything can run at all                                          seconds
#   kernels   every kind of kernel against the interpreter, a program for each file of test/kernels/cases        2 minutes on 16 cores
#   models    of models/: first gradients against the host build; letters under a budget, with copies to the     beside them
#             host, verified unit by unit, as graphs, in bf16, fp16 and tf32
#   zoo       against PyTorch's figures, where ../shared is                                                       beside them
#   times     of the bench models, one after another, when all else is done                                      a minute
#
# A row is printed as soon as it is known, with the second it was; of what fails, the last line that was said, the rest in out/test/gpu.cuda.
# What would go past LIMIT seconds is ended, and is a row that failed.  nvcc takes about 20 s for a model and 5 s for a file of kernels: in all about
# 1,100 s of one core before the times are taken, which take a minute.
#
#   DEVICE=host bash test/gpu/gpu.sh      the same with the processor in the GPU's place: checks this script
#   RUN=no bash test/gpu/gpu.sh           with nvcc and no GPU: all that would be built is compiled and linked, nothing runs
#   PARTS="kernels times" CASES="heads deep" MODELS=letters ZOO=moe_dynamo BENCH=vfm LIMIT=600      these alone
export device=${DEVICE:-cuda} RUN=${RUN-yes} LIMIT=${LIMIT:-600} DISC_GEN TEST_OUT
parts=${PARTS-kernels models zoo times}
if [ "$device" = cuda ]; then
    nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) || { echo "skipped: nvcc is not here"; exit 77; }
    arch=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | sed -n '1s/\./''/p')
    [ "$RUN" = yes ] || arch=${arch:-90}
    [ -n "$arch" ] || { echo "skipped: nvidia-smi shows no GPU"; exit 77; }
    export nvcc arch ARCH=sm_$arch
fi
export work=$TEST_OUT/gpu.$device
blas=$(ls -d /usr/lib/"$(cc -print-multiarch)"/openblas-openmp 2>/dev/null)
export blas include=/usr/include/$(cc -print-multiarch)/openblas-openmp
rm -rf "$work" && mkdir -p "$work/zoo"
began=$(date +%s)
export began
row() { printf '%4d s  %-28s %-8s %s\n' "$(($(date +%s) - began))" "$1" "$2" "$3" | tee -a "$work/table"; }
# NAME COMMAND...: what it says goes to NAME.said; a row if it fails
try() {
    local name=$1 left=$((LIMIT - ($(date +%s) - began)))
    shift
    [ $left -gt 0 ] || { row "$name" FAILED "not begun: more than $LIMIT s have gone"; return 1; }
    timeout $left "$@" >>"$work/$name.said" 2>&1 && return
    row "$name" FAILED "$(grep -v '^make' "$work/$name.said" | tail -1 | cut -c1-150) ($work/$name.said)"
    return 1
}
export -f row try

# ---- is there anything to run on ----
if [ "$device" = cuda ]; then
    try probe "$nvcc" -arch=sm_$arch -o "$work/probe" test/gpu/probe.cu -lcublas || exit 1
    if [ "$RUN" = yes ]; then try probe "$work/probe" || exit 1; fi
    row probe ok "$([ "$RUN" = yes ] && tail -1 "$work/probe.said" || echo compiled)"
fi

# ---- kernels ----
compile() { # what a kind of kernels needs beside its own source
    if [ "$device" = cuda ]; then
        "$nvcc" -std=c++17 -O3 -arch=sm_$arch -Iruntime -Itest/kernels -diag-suppress 177,550 -c -o "$2" "$1"
    else
        g++ -std=c++17 -O2 -march=native -fopenmp -Iruntime -Itest/kernels -I"$include" -x c++ -c -o "$2" "$1"
    fi
}
link() {
    if [ "$device" = cuda ]; then "$nvcc" -arch=sm_$arch -o "$@" -lcublas -lcublasLt; else g++ -fopenmp -o "$@" -L"$blas" -Wl,-rpath,"$blas" -lopenblas -lmvec -lm; fi
}
library() { try "$(basename "$1")" bash -c 'compile "$1" "$2"' - "$1" "$work/$(basename "$1").o"; }
kernels() {
    local name=kernels.$1 folder=$work/kernels/$1
    mkdir -p "$folder"
    try "$name" "$TEST_OUT/kernels" "$folder" "test/kernels/cases/$1.ir" && try "$name" bash -c 'compile "$1/cases.cu" "$1/cases.o"' - "$folder" &&
        try "$name" bash -c 'link "$1/cases" "$1/cases.o" "$2"/*_"$3".*.o' - "$folder" "$work" "$device" || return
    if [ "$RUN" != yes ]; then row "$name" ok compiled; return; fi
    try "$name" "$folder/cases" "$folder/cases.bin" || return
    row "$name" ok "$(tail -1 "$work/$name.said" | cut -c1-100)"
}

# ---- models: the first step's gradients against the host's; the ways in which a step may run ----
built() { # NAME FOLDER DEVICE MODEL options
    local name=$1 folder=$2 where=$3
    shift 3
    try "$name" "$DISC_GEN" "$@" -o "$folder" && try "$name" make -s -C "$folder" DEVICE="$where" -j2
}
steps() { # NAME FOLDER BATCHES options
    local name=$1 folder=$2 batches=$3
    shift 3
    try "$name" "$folder/trainer" --batch-file "$batches" --steps 2 --progress never --variants off "$@"
}
model() {
    local name=$1 folder=$work/$1 said
    built "$name" "$folder" "$device" models/$name.onnx && built "$name" "$folder.host" host models/$name.onnx || return
    if [ "$RUN" != yes ]; then row "$name" ok compiled; return; fi
    for where in "$folder" "$folder.host"; do
        steps "$name" "$where" "$work/$name.safetensors" --save-gradients "$where.gradients" --save-weights "$where.weights" || return
    done
    said=$(python3 test/sim/compare.py "$folder.host.gradients" "$folder.gradients" 1e-4) && row "$name" ok "$said" || row "$name" FAILED "$said"
}
# Of letters, with the GPU to itself: under the least budget there is, by making again and by copies to the host, to the same bits; and each unit
# compared with its operations.
ways() {
    local folder=$work/letters batches=$work/letters.safetensors least way name
    [ -x "$folder/trainer" ] || return
    if [ "$RUN" != yes ]; then try letters.verified make -s -C "$folder" DEVICE="$device" variants/unfused.so && row letters.verified ok compiled; return; fi
    steps letters.all "$folder" "$batches" --row-blocks 1 --save-weights "$work/letters.all" || return
    least=$("$folder/trainer" --batch-file "$batches" --steps 2 --row-blocks 1 --memory-limit 1 2>&1 | sed -n 's/.*would do: --memory-limit \([0-9]*\).*/\1/p')
    for way in budget offload; do
        name=letters.$way
        steps $name "$folder" "$batches" --row-blocks 1 --memory-limit "$least" $([ $way = budget ] || echo --offload on) --save-weights "$work/$name" || continue
        cmp -s "$work/letters.all" "$work/$name" && row $name ok "the same bits within $least bytes" || row $name FAILED "other bits than without a budget"
    done
    name=letters.verified
    steps $name "$folder" "$batches" --verify-every 1 --log "$work/$name.jsonl" || return
    if grep -q '"fell_back"\|"not_looked_at"' "$work/$name.jsonl"; then row $name FAILED "$(grep -m1 '"fell_back"\|"not_looked_at"' "$work/$name.jsonl" | cut -c1-150)"
    else row $name ok "each unit as its operations one by one"; fi
}
# Of letters, with the GPU to itself: steps launched as graphs, and kernel by kernel: the same bits, and what a step takes.
graphs() {
    local name=letters.graphs folder=$work/letters batches=$work/graphs.safetensors way said
    [ -x "$folder/trainer" ] && [ "$RUN" = yes ] || return
    try $name python3 test/models/batches.py "$batches" input_ids=ints20:8,100 || return
    for way in off auto; do
        try $name "$folder/trainer" --batch-file "$batches" --steps 60 --progress never --graphs $way --log "$work/graphs.$way.jsonl" \
            --save-weights "$work/graphs.$way.weights" || return
    done
    cmp "$work"/graphs.{off,auto}.weights || { row $name FAILED "other weights than without"; return; }
    said=$(python3 -c '
import json, statistics, sys
for way in "off", "auto":
    lines = [json.loads(x) for x in open("%s/graphs.%s.jsonl" % (sys.argv[1], way))]
    print("%s: %.3f ms a step, %d recorded" % (way, 1e3 * statistics.median([x["seconds"] for x in lines if "loss" in x][8:]), sum(x.get("event") == "graph_recorded" for x in lines)), end="; ")
    if sys.argv[2] == "cuda": assert any(x.get("event") == "graph_recorded" for x in lines) == (way == "auto"), "recorded where it should not be, or not where it should"
' "$work" "$device" 2>&1) && row $name ok "$said" || row $name FAILED "$(tail -1 <<<"$said")"
}
precision() {
    local name=letters.$1 losses
    built "$name" "$work/$name" "$device" models/letters.onnx --precision $1 || return
    if [ "$RUN" != yes ]; then row "$name" ok compiled; return; fi
    try "$name" "$work/$name/trainer" --batch-file "$work/letters.safetensors" --steps 20 --lr 1e-2 --progress never --variants off --log "$work/$name.jsonl" || return
    losses=$(python3 -c '
import json, sys
l = [r["loss"] for r in map(json.loads, open(sys.argv[1])) if "loss" in r]
print("loss %.4f -> %.4f" % (l[0], l[-2]))
sys.exit(not l[-2] < 0.8 * l[0])' "$work/$name.jsonl") && row "$name" ok "$losses" || row "$name" FAILED "$losses"
}

# ---- the zoo ----
zoo() {
    if [ "$RUN" != yes ]; then built "$1" "$work/zoo/$1" "$device" ../shared/zoo/$1/model.onnx && row "$1" ok compiled; return; fi
    try "$1" python3 ../shared/tools/check_golden.py ../shared/zoo/$1 --disc-gen "$DISC_GEN" --device $device --work "$work/zoo" &&
        row "$1" ok "$(grep ': ok' "$work/$1.said" | cut -c1-150)"
}

# ---- times ----
bench_options() {
    python3 - "../shared/bench/$1/bench.json" <<'END'
import json, os, re, shlex, sys
b = json.load(open(sys.argv[1]))
frozen = ["--freeze", "^(" + "|".join(map(re.escape, b["frozen"])) + ")$"] if b["frozen"] else []
print(shlex.join([os.path.join(os.path.dirname(sys.argv[1]), b["model"]), "--optimizer", "adamw", "--loss", b["loss"]] + frozen + (["--init", b["init"]] if b["init"] else [])))
END
}
bench() { # built beside the others
    eval "set -- $1 $(bench_options "$1")"
    built "bench.$1" "$work/bench.$1" "$device" "${@:2}" && touch "$work/bench.$1/built"
}
timed() {
    local name=bench.$1 median
    [ -e "$work/$name/built" ] || return
    if [ "$RUN" != yes ]; then row "$name" ok compiled; return; fi
    try "$name" "$work/$name/trainer" --batch-file "../shared/bench/$1/batches.safetensors" --steps "${STEPS:-24}" --lr 1e-3 --log "$work/$name.jsonl" --progress never || return
    median=$(python3 -c '
import json, statistics, sys
s = [r["seconds"] for r in map(json.loads, open(sys.argv[1])) if "loss" in r][4:]
print("%.3f ms a step (median of %d)" % (1e3 * statistics.median(s), len(s)))' "$work/$name.jsonl") && row "$name" ok "$median" || row "$name" FAILED "no times"
}
export -f compile link library kernels built steps model precision zoo bench_options bench

each() { # WHAT NAMES...: a line a name
    local name
    for name in "${@:2}"; do echo "$1 $name"; done
}
has() { case " $parts " in *" $1 "*) true ;; *) false ;; esac }
together() { xargs -P "$(nproc)" -I{} bash -c '{}'; }
if has kernels; then each library runtime/device/{blas,conv}_$device.c* $([ "$device" = cuda ] || echo runtime/device/threads_host.cpp) | together; fi
python3 test/sim/batches.py "$work" || exit 1
{
    # the longest of what is not kernels first: it is done when they are
    if has zoo && [ -d ../shared/zoo ]; then each zoo ${ZOO-$(cd ../shared/zoo && ls -d */golden.json | xargs -n1 dirname)}; fi
    if has models; then each model ${MODELS-letters flow tracks shapes}; fi
    if has kernels; then each kernels ${CASES-$(cd test/kernels/cases && ls *.ir | sed 's/\.ir$//')}; fi
    if has times && [ -d ../shared/bench ]; then each bench ${BENCH-$(cd ../shared/bench && ls -d */bench.json | xargs -n1 dirname)}; fi
    if has models; then case " ${MODELS-letters} " in *" letters "*) each precision bf16 fp16 tf32 ;; esac; fi
} | together
if has models; then ways; graphs; fi
if has times && [ -d ../shared/bench ]; then
    for name in ${BENCH-$(cd ../shared/bench && ls -d */bench.json | xargs -n1 dirname)}; do timed "$name"; done
fi

echo "== $device, $((SECONDS / 60)) min $((SECONDS % 60)) s, $(grep -c ' ok ' "$work/table") ok, $(grep -c ' FAILED ' "$work/table") failed"
! grep ' FAILED ' "$work/table"
