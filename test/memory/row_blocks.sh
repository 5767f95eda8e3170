# Scores over a vocabulary, their loss and gradient, a block of rows at a time: the results are those of the unfused program, whatever the
# number of blocks and where rows are no multiple of it; budgets choose the number (test/memory/row_blocks.py).
. test/check.inc
. test/build.inc
export CFLAGS=-O0 # of the runtime alone
python3 test/memory/row_blocks_model.py "$scratch"
"$DISC_GEN" "$scratch/model.onnx" --loss 'cross_entropy(scores, axis=-1)' --dump row_blocks | grep -q 'batch\*seq, 1500\]: in blocks of rows' || fail "nothing in blocks"
built_of() { build "row_blocks_$1" "$scratch/model.onnx" --loss "$2" --optimizer sgd $3; eval "$1=\$built"; }
built_of cross 'cross_entropy(scores, axis=-1)' ''
built_of cross_unfused 'cross_entropy(scores, axis=-1)' --no-fuse
built_of next 'next_token(scores)' ''
built_of next_unfused 'next_token(scores)' --no-fuse
python3 test/memory/row_blocks.py "$scratch" "$cross" "$cross_unfused" "$next" "$next_unfused" || fail "results"
finish
