exec bash test/messages/compare.inc tied_lm_dynamo
