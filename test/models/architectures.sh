# Models of 124 million and of a billion weights whose data is missing: a program within 2 s and 500 MB.
scratch=$TEST_OUT/models.architectures
failures=0
for model in ../shared/zoo/architectures/*.onnx; do
    [ -f "$model" ] || { echo "skipped: ../shared/zoo/architectures is not there"; exit 77; }
    took=$(python3 test/scale/measure.py 2 500 "$DISC_GEN" "$model" -o "$scratch" --init "normal(0.02)") || failures=1
    echo "$model: $took s"
    rm -rf "$scratch"
    "$DISC_GEN" "$model" -o "$scratch" >/dev/null 2>&1
    [ $? = 2 ] || { echo "FAILED: $model: without --init it wants exit status 2"; failures=1; }
done
exit $failures
