# The device refuses memory in mid-run, as when another process takes it: the run goes on in less, bit for bit; where not even the least can
# be had it ends with status 3 and a checkpoint (test/memory/refused.py).
. test/check.inc
. test/build.inc
build letters models/letters.onnx
check "refused" python3 test/memory/refused.py "$built/trainer" "$scratch"
finish
