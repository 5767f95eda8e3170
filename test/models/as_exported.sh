# Models as people export them, default flags: told the loss, each trains.
. test/models/train.inc
image="image=reals:4,3,16,16 target=ints5:4 / image=reals:2,3,24,20 target=ints5:2"
text="input_ids=ints50:3,9 / input_ids=ints50:2,14"
train bn_dropout_softmax_dynamo zoo/as_exported/bn_dropout_softmax_dynamo.onnx 2 '--loss "cross_entropy(softmax, axis=1)"' "--lr 1e-2" $image
train bn_dropout_softmax_script zoo/as_exported/bn_dropout_softmax_script.onnx 2 '--loss "cross_entropy(y, axis=1)"' "--lr 1e-2" $image
train tied_lm_dynamo zoo/as_exported/tied_lm_dynamo.onnx 2 '--loss "next_token(mul)"' "--lr 1e-2" $text
train tied_lm_script zoo/as_exported/tied_lm_script.onnx 2 '--loss "next_token(y)"' "--lr 1e-2" $text
