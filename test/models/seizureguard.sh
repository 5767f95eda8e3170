. test/models/train.inc
train seizureguard models/01_seizureguard/base_pat_02.onnx 2 "" "" input=reals:4,18,1024 target=ints2:4 / input=reals:6,18,1024 target=ints2:6
