# Files that are no model to train (test/error/bad_models.h): each ends with status 2 and its own message, and no folder is written.
set -u
folder=$TEST_OUT/error.reader
rm -rf "$folder"
"$TEST_OUT/make_bad_models" "$folder" >"$folder.said" || { cat "$folder.said"; exit 1; }
failures=0
for model in "$folder"/*.onnx "$folder"/artifacts/*.onnx; do
    wanted=${model%.onnx}.stderr
    [ -f "$wanted" ] || continue # the good one, for contrast
    "$DISC_GEN" "$model" -o "$folder/out" >"$folder/said.out" 2>"$folder/said.err"
    status=$?
    [ $status = 2 ] || { echo "$model: exit status $status, wanted 2"; failures=$((failures + 1)); }
    diff -u "$wanted" "$folder/said.err" || failures=$((failures + 1))
    [ ! -e "$folder/out" ] || { echo "$model: a folder was written"; failures=$((failures + 1)); rm -rf "$folder/out"; }
done
"$DISC_GEN" "$folder/artifacts/good.onnx" -o "$folder/good" --train w --loss "mse(y)" >"$folder/said.out" 2>&1 || { cat "$folder/said.out"; failures=$((failures + 1)); }
exit $((failures > 0))
