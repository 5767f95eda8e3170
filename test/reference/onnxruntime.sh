# What --export writes runs in onnxruntime as this project's own runner computes it, and as the trained program evaluates.  PYTHON has
# onnxruntime and numpy.
. test/build.inc
python=${PYTHON:-python3}
"$python" -c "import numpy, onnxruntime" 2>/dev/null || { echo "skipped: no onnxruntime in $python (PYTHON=/its/python)"; exit 77; }
[ -d ../shared/zoo ] || { echo "skipped: ../shared/zoo is not there"; exit 77; }
out=$TEST_OUT/reference.onnxruntime
rm -rf "$out" && mkdir -p "$out"
for name in gpt2_dynamo lstm_ae_dynamo resnet_script; do
    batches=../shared/zoo/$name/golden.safetensors
    build_zoo "zoo_$name" $name
    trainer=$built/trainer
    "$trainer" --batch-file "$batches" --steps 4 --lr 0.01 --variants off --progress never --export "$out/$name.onnx" --export-mode inference \
        --save-weights "$out/$name.safetensors" >"$out/said" 2>&1 || { cat "$out/said"; exit 1; }
    "$DISC_GEN" "$out/$name.onnx" --inference -o "$out/$name" >"$out/said" 2>&1 || { cat "$out/said"; exit 1; }
    mkdir -p "$out/$name/$host_objects" && cp -r "$built/$host_objects/runtime" "$out/$name/$host_objects/"
    make -s -C "$out/$name" DEVICE=host >"$out/said" 2>&1 || { cat "$out/said"; exit 1; }
    "$python" - "$out/$name" "$batches" <<'END' || exit 1
import subprocess, sys
import numpy as np, onnxruntime
sys.path.insert(0, "test/support")
import tensors as t
folder, batches = sys.argv[1:]
numpy_of = lambda x: np.frombuffer(x[2], t.NUMPY[x[0]]).reshape(x[1])
onnxruntime.set_default_logger_severity(3)
session = onnxruntime.InferenceSession(folder + ".onnx", providers=["CPUExecutionProvider"])
batch = t.read(batches)[0]
inputs = {i.name: numpy_of(batch["step0." + i.name]) for i in session.get_inputs()}
t.safetensors(folder + ".inputs", {k: (batch["step0." + k][0], list(v.shape), v.ravel().tolist()) for k, v in inputs.items()})
subprocess.run([folder + "/runner", "--inputs", folder + ".inputs", "--outputs", folder + ".outputs"], check=True)
ours = t.read(folder + ".outputs")[0]
for o, theirs in zip(session.get_outputs(), session.run(None, inputs)):
    worst = float(np.abs(numpy_of(ours[o.name]) - theirs).max() / np.abs(theirs).max())
    print("%s: %s differs by %.1e of its largest element" % (folder.split("/")[-1], o.name, worst))
    assert worst < 1e-5
END
done
