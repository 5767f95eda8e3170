# All its dims are fixed: one shape.
. test/models/train.inc
train cct2 models/04_cct2_ft2/network_infer.onnx 1 "" "" input=reals:1,3,32,32 target=ints10:1
