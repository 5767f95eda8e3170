# Data that does not fit the model.  A whole file from which no batch could be taken: status 2.  One batch of a stream: with --on-anomaly
# stop, status 4, the guard, its formula and values, and weights as they were before that batch.
. test/check.inc
. test/build.inc
python3 test/error/data.py "$scratch" || exit 1
build tracks models/tracks.onnx
tracks=$built/trainer
build letters models/letters.onnx
letters=$built/trainer
build classes "$scratch/classes.onnx" --loss "cross_entropy(logits, axis=1)"
classes=$built/trainer
d=$scratch

# files that are good, in every form
for data in good.safetensors good.npz deflated.npz labels.safetensors "trajectory=$d/trajectory.npy,target=$d/target.npy"; do
    case $data in *=*) ;; *) data=$d/$data ;; esac
    expect "good: $(basename "$data")" 0 "$tracks" --data "$data" --steps 2 --progress never
done
expect "float64 is read with one notice" 0 "$tracks" --data "$d/doubles.npz" --steps 3 --progress never
expect "float16 is read with one notice" 0 "$tracks" --data "$d/halves.safetensors" --steps 3 --progress never
expect "ints are widened" 0 "$letters" --batch-file "$d/letters_i32.safetensors" --progress never

# files as a whole
for name in no_target no_input rank integers bools features samples no_samples no_elements empty text short header_only header_cut header_huge header_no_json longer \
    overlap shape negative dtype metadata_list metadata_twice; do
    expect "data: $name" 2 "$tracks" --data "$d/$name.safetensors" --progress never
done
for name in no_samples cut crc pickle; do expect "npz: $name" 2 "$tracks" --data "$d/$name.npz" --progress never; done
expect "npy without a name" 2 "$tracks" --data "$d/target.npy"
expect "npy cut" 2 "$tracks" --data "trajectory=$d/trajectory.npy,target=$d/cut.npy"
expect "npy of no file" 2 "$tracks" --data "trajectory=$d/trajectory.npy,target=$d/nowhere.npy"
for name in npy_negative npy_real npy_open; do expect "$name" 2 "$tracks" --data "trajectory=$d/trajectory.npy,target=$d/$name.npy"; done
mkfifo "$d/pipe"
expect "a pipe that nobody writes into" 2 timeout 20 "$tracks" --data "$d/pipe"
expect "npy, a pipe" 2 timeout 20 "$tracks" --data "trajectory=$d/trajectory.npy,target=$d/pipe"
expect "no such file" 2 "$tracks" --data "$d/nowhere.npz"
expect "a folder" 2 "$tracks" --data "$d"
for name in gap far rank_all none good; do expect "batches: $name" 2 "$tracks" --batch-file "$d/$name.safetensors"; done
expect "floats never become integers" 2 "$letters" --batch-file "$d/letters_floats.safetensors"
expect "weights that are none" 2 "$tracks" --data "$d/good.npz" --load-weights "$d/model.safetensors.txt"
expect "weights of another model" 2 "$tracks" --data "$d/good.npz" --load-weights "$(dirname "$letters")/weights.safetensors"

# options
for option in "--steps -1" "--steps 1.5" "--epochs x" "--batch-size 0" "--lr fast" "--lr nan" "--memory-limit 0" "--memory-limit 3X" "--memory-limit -1G" \
    "--memory-limit 1e400" "--max-skipped 101%" "--on-anomaly cry" "--seed -1" "--stpes 3" "--resume" "--checkpoint-every 2" "--row-blocks 0" "--momentum 0.9" \
    "--batch-file $d/batches.safetensors" "--dim time=3" "--plan --dim tmie=3" "--plan --dim time=-3" "--export $d/no/x.onnx" "--save-weights $d/no/where" \
    "--log $d/no/where" "--checkpoint $d/good.npz" "--checkpoint $d --resume" "--steps" "--json=1" "--lr -1" "--beta1 1" \
    "--save-weights $d" "--evaluate --checkpoint $d/c --resume" "--evaluate --steps 3" "extra"; do
    # shellcheck disable=SC2086
    expect "option: $(echo "$option" | sed "s|$d|@|")" 2 "$tracks" --data "$d/good.npz" --progress never $option
done
# what is written over what is read, or over another result; names that are too long, before a step is taken
cp "$d/good.npz" "$d/mine.npz"
for option in "--log $d/mine.npz" "--save-weights $d/mine.npz" "--export $d/mine.npz" "--log $d/one --save-weights $d/one" \
    "--log $d/good.safetensors" "--save-weights $d/$(printf %250s | tr ' ' x)"; do
    # shellcheck disable=SC2086
    expect "written over: $(echo "$option" | sed "s|$d|@|g")" 2 "$tracks" --data "$d/mine.npz" --progress never $option
done
cmp "$d/good.npz" "$d/mine.npz" || fail "data was written over"
"$tracks" --data "$d/good.npz" --steps 1 --progress never --save-weights "$d/further" >"$d/said.out" && expect "weights trained further in their place" 0 "$tracks" --data "$d/good.npz" \
    --steps 1 --progress never --load-weights "$d/further" --save-weights "$d/further"
expect "no epochs" 0 "$tracks" --data "$d/good.npz" --progress never --epochs 0 --log "$d/no_steps"
[ ! -s "$d/no_steps" ] || fail "no epochs: steps were taken"
expect "nothing to do" 2 "$tracks"

"$tracks" --batch-file "$d/fixed.safetensors" --max-skipped 34% --progress never --log "$d/closed.log" --checkpoint "$d/closed" <&- >&- 2>&-
if grep -v '^{' "$d/closed.log"; then fail "closed streams: the log holds what is said"; fi
expect "closed streams: the checkpoint" 0 "$tracks" --batch-file "$d/batches.safetensors" --progress never --checkpoint "$d/closed" --resume --steps 4 --max-skipped 34%

# one batch of a stream: it has number 1, after a step that is taken and before one that is not
stop() { # trainer, name of the file
    local trainer=$1 name=$2
    expect "stop: $name" 4 "$trainer" --batch-file "$d/$name.safetensors" --on-anomaly stop --progress never --log "$d/log" --checkpoint "$d/after.$name" --steps 3
    "$trainer" --batch-file "$d/$name.safetensors" --progress never --checkpoint "$d/before.$name" --steps 1 >"$d/said.out" 2>&1 || fail "$name: step 0"
    python3 test/error/same_weights.py "$d/before.$name" "$d/after.$name" || fail "$name: weights changed"
    [ "$(grep -c '"step":.*"loss"' "$d/log")" = 1 ] || fail "$name: the log has other steps than 0"
    grep -q '"event":"stopped"' "$d/log" || fail "$name: the log has no line of the stop"
}
for name in fixed equal target_shape rank_one nan_input nan_target no_rows no_time; do stop "$tracks" $name; done
for name in token_high token_low token_far too_long one_token; do stop "$letters" $name; done
expect "labels to be ignored are" 0 "$classes" --batch-file "$d/rows.safetensors" --on-anomaly stop --progress never
for name in label_high label_low label_shape label_all_ignored rows_differ; do stop "$classes" $name; done
expect "labels that are floats" 2 "$classes" --batch-file "$d/label_floats.safetensors" --progress never
expect "heal: one of three is more than 1 %" 4 "$tracks" --batch-file "$d/fixed.safetensors" --progress never
expect "skip, and as many as there are may be" 0 "$tracks" --batch-file "$d/fixed.safetensors" --progress never --on-anomaly skip --max-skipped 34%
finish
