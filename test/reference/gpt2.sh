exec bash test/reference/golden.inc gpt2_dynamo
