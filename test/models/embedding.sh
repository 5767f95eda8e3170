# Its batch has no name of a person's choosing.
. test/models/train.inc
train embedding models/05_embedding/embedding_model.onnx 2 "" "" input_1=reals:4,76,32,1 target=reals:4,1,1,96 / \
    input_1=reals:2,76,32,1 target=reals:2,1,1,96
