exec bash test/messages/compare.inc tied_lm_script
