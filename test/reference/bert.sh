exec bash test/reference/golden.inc bert_script
