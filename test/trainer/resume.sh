# Runs broken off by signals and by kill -9 go on bit for bit (resume.py).
. test/check.inc
. test/build.inc
python3 test/error/data.py "$scratch" || exit 1
build tracks models/tracks.onnx
check "resume" python3 test/trainer/resume.py "$built/trainer" "$scratch/good.npz" "$scratch"
finish
