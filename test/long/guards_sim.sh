# Batches around the sizes that choose a form of kernels, where narrow indices have 16 bits, and the rows that choose dropped one at a time
# (test/healing/guards.py): each form gives what the processor gives, and each row is needed.
. test/check.inc
. test/build.inc
. test/healing/guards.inc
simulated flow models/flow.onnx
simulated shapes models/shapes.onnx
[ $failures = 0 ]
