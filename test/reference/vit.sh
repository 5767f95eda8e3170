exec bash test/reference/golden.inc vit_script
