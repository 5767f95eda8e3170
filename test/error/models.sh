# What disc-gen says of models that it can read but not compile, and of options that do not fit the model: status 2, and the exact text.
. test/check.inc
python3 test/error/models.py "$scratch"

bad() { # what, then disc-gen's arguments; nothing may be written
    local what=$1
    shift
    expect "$what" 2 "$DISC_GEN" "$@"
    [ ! -e "$scratch/out" ] || { fail "$what: a folder was written"; rm -rf "$scratch/out"; }
}
m=$scratch/good.onnx
o="-o $scratch/out"
check "the good one compiles" "$DISC_GEN" "$m" -o "$scratch/good" --loss "mse(y)"

# models
for name in unknown misspelt future bool_add float_and mixed float_indices string inner_sizes broadcast too_few bad_axis bad_permutation \
    bad_reshape attribute_type nothing_trains no_inputs no_outputs no_type no_rank huge_dim; do
    bad "model $name" "$scratch/$name.onnx" $o
done
bad "no such file" "$scratch/nowhere.onnx" $o
bad "a folder as model" "$scratch" $o

# options
bad "no model" $o
bad "no folder" "$m"
bad "unknown option" "$m" $o --frezze fc
bad "option without value" "$m" $o --freeze
bad "two models" "$m" "$m" $o
bad "--freeze matches nothing" "$m" $o --freeze 'fc\.wieght'
bad "--train matches nothing" "$m" $o --train '^bias$'
bad "--freeze everything" "$m" $o --freeze '.'
bad "--freeze no expression" "$m" $o --freeze 'fc.(weight'
bad "--trainable no file" "$m" $o --trainable "$scratch/none.txt"
bad "--trainable a folder" "$m" $o --trainable "$scratch"
bad "--init beyond all numbers" "$m" $o --init 'normal(1e999)'
mkfifo "$scratch/pipe"
expect "a pipe that nobody writes into" 2 timeout 20 "$DISC_GEN" "$scratch/pipe" $o
echo 'train "fc.wait"' >"$scratch/table.txt"
bad "--trainable unknown name" "$m" $o --trainable "$scratch/table.txt"
echo 'maybe "fc.weight"' >"$scratch/table.txt"
bad "--trainable unknown word" "$m" $o --trainable "$scratch/table.txt"
bad "--loss unknown function" "$m" $o --loss "mes(y)"
bad "--loss unknown output" "$m" $o --loss "mse(x)"
bad "--loss half" "$m" $o --loss "mse(y"
bad "--loss axis" "$m" $o --loss "cross_entropy(y, axis=5)"
bad "--loss next_token of two dims" "$m" $o --loss "next_token(y)"
bad "--loss OUT of rank 2" "$m" $o --loss "y"
bad "--optimizer" "$m" $o --optimizer adamm
bad "--precision" "$m" $o --precision fp8
bad "--init" "$m" $o --init "normal()"
bad "--batch-norm" "$m" $o --batch-norm maybe
bad "--dump" "$m" --dump everything
bad "--dim unknown" "$m" $o --dim bacth=3
bad "--dim twice" "$m" $o --dim batch=1..4 --dim batch=5..9
bad "--dim upside down" "$m" $o --dim batch=9..1
bad "--dim likely outside" "$m" $o --dim batch=1..8~9
bad "--dim negative" "$m" $o --dim batch=-3
bad "--dim no number" "$m" $o --dim batch=many
bad "--dim huge" "$m" $o --dim batch=99999999999999999999
bad "--dim of a fixed axis" "$m" $o --dim x.1=5
bad "--dim twice, by place and name" "$scratch/contrast.onnx" $o --dim wide=5..7 --dim x.1=8
bad "--name-dim no such axis" "$m" $o --name-dim x.5=rows
bad "--name-dim no such input" "$m" $o --name-dim z.0=rows
bad "--tie unknown" "$m" $o --tie fc.weight=fc.gain
bad "--untie unknown" "$m" $o --untie fc.gain
bad "--inference with --loss" "$m" $o --inference --loss "mse(y)"

# -o
echo text >"$scratch/file"
expect "-o at a file" 2 "$DISC_GEN" "$m" -o "$scratch/file" --loss "mse(y)"
[ "$(cat "$scratch/file")" = text ] || fail "-o at a file: the file was changed"
expect "-o below a file" 2 "$DISC_GEN" "$m" -o "$scratch/file/sub" --loss "mse(y)"
mkdir -p "$scratch/taken/model.cu"
expect "-o where a folder has a file's name" 2 "$DISC_GEN" "$m" -o "$scratch/taken" --loss "mse(y)"
[ "$(find "$scratch/taken" -type f | wc -l)" = 0 ] || fail "-o where a folder has a file's name: files were left"
finish
