exec bash test/reference/golden.inc resnet_script
