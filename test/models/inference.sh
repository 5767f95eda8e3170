# A model found elsewhere, run by the runner on the test data that came with it.
folder=../shared/models/11_superres
[ -d "$folder" ] || { echo "skipped: $folder is not there"; exit 77; }
out=$TEST_OUT/models.inference
"$DISC_GEN" "$folder/super_resolution.onnx" --inference -o "$out" >/dev/null || exit 1
make -s -C "$out" DEVICE=host CFLAGS=-O0 >/dev/null || exit 1
"$out/runner" --inputs "$folder/test_data_set_0" --outputs "$out/outputs.safetensors" || exit 1
exec python3 - "$out/outputs.safetensors" "$folder/test_data_set_0/output_0.pb" <<'PY'
import array, json, struct, sys
got = open(sys.argv[1], "rb").read()
size = struct.unpack("<Q", got[:8])[0]
entry = json.loads(got[8:8 + size])["output"]
assert entry["shape"] == [1, 1, 672, 672], entry
have = array.array("f", got[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]])
want = array.array("f", open(sys.argv[2], "rb").read()[-4 * len(have):])  # raw_data is the file's last field
worst = max(abs(a - b) for a, b in zip(have, want))
print("worst difference %.1e" % worst)
sys.exit(not worst < 1e-5)
PY
