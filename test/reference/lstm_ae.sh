exec bash test/reference/golden.inc lstm_ae_dynamo
