# A convolutional net with attention above it; the target's length is a quotient of the image's width.
. test/models/train.inc
train ocr_rec models/08_ppocr_rec/ch_PP-OCRv4_rec_infer.onnx 2 "" "" x=reals:2,3,48,64 target=ints6625:2,8 / \
    x=reals:1,3,48,96 target=ints6625:1,12
