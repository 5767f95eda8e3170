# Weights in Constant nodes, three dynamic dims, BatchNormalization for inference, a Softmax at the end.
. test/models/train.inc
train ocr_cls models/07_ppocr_cls/ch_ppocr_mobile_v2.0_cls_infer.onnx 2 "" "" x=reals:2,3,48,192 target=ints2:2 / \
    x=reals:3,3,40,100 target=ints2:3
