exec bash test/reference/golden.inc unet_dynamo
