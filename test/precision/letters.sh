# A hundred steps of the demonstration's model in each precision: losses within 1 % of those of floats, in less memory where numbers are short.
. test/build.inc
failures=0
python3 test/precision/text.py "$TEST_OUT/precision.text.safetensors" 100 README.md generator/ir/*.h generator/passes/*.c || exit 1
peak() { "$built/trainer" --plan --dim batch=16 --dim seq=128 --json | sed -n 's/.*"arena_bytes":\([0-9]*\).*/\1/p'; }
for precision in fp32 tf32 bf16 fp16; do
    build precision_$precision models/letters.onnx --loss "next_token(logits)" --precision $precision
    said=$("$built/trainer" --batch-file "$TEST_OUT/precision.text.safetensors" --steps 100 --lr 1e-3 --progress never --log "$built.log" 2>&1) ||
        { echo "FAILED: $precision: exit status $?: $said"; exit 1; }
    [ $precision = tf32 ] && tiles=1 || tiles=0
    [ "$(grep -c 'define TILE_TF32' "$built/model.cu")" = $tiles ] || { echo "FAILED: $precision: whether tiles round to tf32"; failures=1; }
    bytes=$(peak)
    echo "$precision: arena of $bytes bytes for 16 x 128"
    case $precision in
    fp32)
        floats=$built.log most=$bytes
        continue ;;
    tf32) share=1e-7 allowed=$most ;;
    *) share=0.01 allowed=$((most * 3 / 4)) ;;
    esac
    python3 test/precision/near.py "$floats" "$built.log" 100 $share || failures=1
    [ "$bytes" -le "$allowed" ] || { echo "FAILED: $precision: wanted $allowed bytes at most"; failures=1; }
    if [ $precision = tf32 ]; then
        [ "$(echo "$said" | grep -c 'notice: the processor has no tf32')" = 1 ] || { echo "FAILED: that tf32 is not to be had is not said once"; failures=1; }
    fi
done
exit $failures
