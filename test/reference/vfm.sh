exec bash test/reference/golden.inc vfm_dynamo
