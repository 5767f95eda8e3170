# fp16 scales the loss: a step whose gradients overflow leaves all weights as they are, is told, and halves the scale; training goes on, and a
# run taken up again goes on bit for bit; gradients are saved as they are, without the scale (overflow.py).
. test/build.inc
build precision_fp32_tracks models/tracks.onnx
floats=$built
build precision_fp16_tracks models/tracks.onnx --precision fp16
scratch=$TEST_OUT/precision.overflow
rm -rf "$scratch" && mkdir -p "$scratch"
exec python3 test/precision/overflow.py "$built" "$floats" "$scratch"
