"""A linear layer whose names look like a page's own text: python3 test/report/odd_names.py OUT.onnx"""
import os, sys
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
from onnx_writer import *

nodes = [node("MatMul", ["x", "w</script><b>"], ["h@MODEL@"], name="</script><script>alert(1)</script>"), node("Tanh", ["h@MODEL@"], ["y</script>"], name="<!-- & -->")]
model(sys.argv[1], graph(nodes, [value("x", FLOAT, ["a<b", 4])], [value("y</script>", FLOAT, ["a<b", 3])], [tensor("w</script><b>", FLOAT, [4, 3], [0.25] * 12)]), opset=17)
