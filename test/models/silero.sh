# The batch is axis 1 of the state; a scalar input; If three deep; the choice of one If is a guard on the length.
. test/models/train.inc
train silero models/09_silero/silero_vad_16k_op15.onnx 2 "" "" input=reals:4,512 state=reals:2,4,128 sr=int::16000 target=bits:4,1 / \
    input=reals:3,576 state=reals:2,3,128 sr=int::16000 target=bits:3,1
