# Under valgrind: the generator on a small model, and its trainer over batches of several shapes.  No wild reads, nothing uninitialised
# that is acted on, nothing leaked.  (The trainer is built without the newest instructions, which valgrind does not know.)
command -v valgrind >/dev/null || { echo "skipped: valgrind is not there"; exit 77; }
. test/check.inc
. test/build.inc
python3 test/error/data.py "$scratch" || exit 1
build classes "$scratch/classes.onnx" --loss "cross_entropy(logits, axis=1)"
cp -r "$built" "$scratch/plain" && rm -rf "$scratch/plain/objects-host"
make -s -j2 -C "$scratch/plain" DEVICE=host HOST_FLAGS="-std=c++17 -O1 -g -march=x86-64-v2 -fno-math-errno -fno-trapping-math -fopenmp" || exit 1
export OMP_NUM_THREADS=1 DISC_BLAS_CORE=Nehalem
watch="valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite,indirect --errors-for-leak-kinds=definite,indirect"
check "generator" $watch "$DISC_GEN" "$scratch/classes.onnx" -o "$scratch/again"
check "trainer" $watch "$scratch/plain/trainer" --batch-file "$scratch/rows.safetensors" --steps 6 --progress never --checkpoint "$scratch/checkpoint" --log "$scratch/log"
check "trainer, resumed" $watch "$scratch/plain/trainer" --batch-file "$scratch/rows.safetensors" --steps 9 --progress never --checkpoint "$scratch/checkpoint" --resume --log "$scratch/log"
check "evaluate" $watch "$scratch/plain/trainer" --batch-file "$scratch/rows.safetensors" --evaluate --json
expect "a bad batch" 4 $watch "$scratch/plain/trainer" --batch-file "$scratch/label_high.safetensors" --progress never --on-anomaly stop
finish
