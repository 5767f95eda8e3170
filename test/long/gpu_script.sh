# The GPU's test with the processor in its place: the script itself works, and tells of what is wrong.
scratch=$TEST_OUT/long.gpu_script
export DEVICE=host BENCH=
ZOO=moe_dynamo bash test/gpu/gpu.sh || exit 1
grep -q ' letters  *ok' "$TEST_OUT/gpu.host/table" || { echo "FAILED: no row of letters"; exit 1; }
[ -d ../shared/zoo ] || exit 0
MODELS= CASES= ZOO=nothing bash test/gpu/gpu.sh >"$scratch.said" 2>&1 && { echo "FAILED: a model that is not there passes"; exit 1; }
grep -q ' nothing  *FAILED' "$scratch.said" || { echo "FAILED: of a model that is not there nothing is said"; exit 1; }
# What it would build on a GPU is compiled and linked, where nvcc is.
command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ] || exit 0
DEVICE=cuda RUN=no LIMIT=3000 bash test/gpu/gpu.sh
