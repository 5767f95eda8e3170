# Initializers that are inputs too; Reshape and Transpose of rank 6.
. test/models/train.inc
train superres models/11_superres/super_resolution.onnx 2 "" "" input=reals:1,1,224,224 target=reals:1,1,672,672 / \
    input=reals:2,1,224,224 target=reals:2,1,672,672
