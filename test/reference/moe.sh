exec bash test/reference/golden.inc moe_dynamo
