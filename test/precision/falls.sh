# Every small model of the project trains in bf16: attention, a GRU, an LSTM autoencoder, convolutions with batch norm.
. test/build.inc
failures=0
trains() { # NAME, batches
    local name=$1
    shift
    if [ $name = letters ]; then
        build precision_bf16 models/letters.onnx --loss "next_token(logits)" --precision bf16 # as letters.sh has it
    else
        build precision_bf16_$name models/$name.onnx --precision bf16
    fi
    python3 test/models/batches.py "$built.batches.safetensors" "$@" || exit 1
    "$built/trainer" --batch-file "$built.batches.safetensors" --steps 60 --lr 6e-3 --progress never --log "$built.log" >"$built.told" 2>&1 ||
        { echo "FAILED: $name: $(cat "$built.told")"; failures=1; return; }
    grep -q 'bfloat16' "$built/model.cu" || { echo "FAILED: $name: nothing is short"; failures=1; }
    python3 test/models/falls.py "$built.log" 60 2 || failures=1
}
trains letters input_ids=ints90:3,20 / input_ids=ints90:2,33
trains flow sensors=reals:6,40,7 target=ints3:6 / sensors=reals:3,25,7 target=ints3:3
trains tracks trajectory=reals:3,12,6 target=reals:3,12,6 / trajectory=reals:2,20,6 target=reals:2,20,6
trains shapes image=reals:4,1,20,16 target=ints4:4 / image=reals:3,1,16,24 target=ints4:3
exit $failures
