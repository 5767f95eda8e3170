exec bash test/reference/golden.inc llama_dynamo
