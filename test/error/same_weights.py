"""Ends with 0 where the checkpoints in two folders hold the same tensors, bit for bit, after as many updates.  same_weights.py A B [tensors]"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
import tensors as t

(a, about_a), (b, about_b) = [t.read(os.path.join(f, "checkpoint.safetensors") if os.path.isdir(f) else f) for f in sys.argv[1:3]]
differ = sorted(k for k in set(a) | set(b) if a.get(k) != b.get(k))
if about_a.get("updates") != about_b.get("updates"): differ.append("updates: %s, %s" % (about_a.get("updates"), about_b.get("updates")))
if differ: print("%s and %s differ: %s" % (sys.argv[1], sys.argv[2], ", ".join(differ[:5])))
sys.exit(bool(differ))
