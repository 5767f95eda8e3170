exec bash test/messages/compare.inc bn_dropout_softmax_script
