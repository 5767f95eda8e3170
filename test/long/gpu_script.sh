# The GPU's test with the processor in its place: the script itself works, and tells of what is wrong.
scratch=$TEST_OUT/long.gpu_script
export DEVICE=host BENCH=
ZOO=moe_dynamo bash test/gpu/gpu.sh || exit 1
grep -q '^letters  *ok' "$TEST_OUT/gpu.host/table" || { echo "FAILED: no row of letters"; exit 1; }
[ -d ../shared/zoo ] || exit 0
ZOO=nothing bash test/gpu/gpu.sh >"$scratch.said" 2>&1 && { echo "FAILED: a model that is not there passes"; exit 1; }
grep '^nothing  *FAILED' "$scratch.said"
