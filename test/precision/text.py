"""python3 test/precision/text.py OUT.safetensors STEPS FILE...: batches of bytes below 128 from the files, each of its own shape, for models/letters.onnx."""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from tensors import Random, safetensors

out, steps = sys.argv[1], int(sys.argv[2])
text = b"".join(open(f, "rb").read() for f in sys.argv[3:])
random, batches = Random(5), {}
for step in range(steps):
    seq = [24, 31, 40][step % 3]
    starts = random.ints(4, len(text) - seq)
    batches["step%d.input_ids" % step] = ("I64", [4, seq], [min(c, 127) for s in starts for c in text[s:s + seq]])
safetensors(out, batches)
