# Passes on text, compared with the text that must come out; UPDATE=1 refreshes it.
exec "$TEST_OUT/ir_run" test/ir
