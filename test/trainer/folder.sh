# The same model and options give the same bytes, whatever the folders are called; the folder builds where it is moved to, also with
# spaces in its path; what it trains does not depend on where it lies, and on the number of threads only in the last bits.
. test/check.inc
. test/build.inc
python3 test/error/data.py "$scratch" || exit 1
python3 test/memory/budget.py "$scratch"

mkdir -p "$scratch/elsewhere/deep"
for name in letters flow tracks shapes; do
    "$DISC_GEN" models/$name.onnx -o "$scratch/$name" >"$scratch/$name.1" 2>&1 || fail "$name: disc-gen"
    cp models/$name.onnx "$scratch/elsewhere/deep/$name.onnx"
    (cd "$scratch/elsewhere" && "$DISC_GEN" -o "$scratch/elsewhere/another folder/" "deep/$name.onnx" >"$scratch/$name.2" 2>&1) || fail "$name: disc-gen elsewhere"
    check "$name: the same bytes" diff -r "$scratch/$name" "$scratch/elsewhere/another folder"
    sed -i "s|$scratch/elsewhere/another folder/|$scratch/$name|" "$scratch/$name.2"
    check "$name: the same said" diff "$scratch/$name.1" "$scratch/$name.2"
    "$DISC_GEN" models/$name.onnx -o "$scratch/$name" >/dev/null 2>&1
    check "$name: the same bytes over themselves" diff -r "$scratch/$name" "$scratch/elsewhere/another folder"
    "$DISC_GEN" models/$name.onnx -o "$scratch/closed" <&- >&- 2>&-
    check "$name: the same bytes with standard streams closed" diff -r "$scratch/closed" "$scratch/$name"
    rm -rf "$scratch/elsewhere/another folder" "$scratch/closed"
    if grep -rIl -e "$scratch" -e "$PWD" "$scratch/$name"; then fail "$name: a path of this machine stands in the folder"; fi
done

# moved, with its objects: nothing is compiled again, and it trains as it did where it was made
build tracks models/tracks.onnx
run() { "$@" --batch-file "$scratch/tracks.safetensors" --progress never --steps 8 >"$scratch/said.out" 2>&1 || fail "$*"; }
rm -rf "$scratch/moved to \$HOME & 'on'"
cp -rp "$built" "$scratch/moved to \$HOME & 'on'"
check "make where it was moved to" make -s -C "$scratch/moved to \$HOME & 'on'" DEVICE=host
run "$built/trainer" --save-weights "$scratch/here"
run "$scratch/moved to \$HOME & 'on'/trainer" --save-weights "$scratch/there"
check "moved: the same weights" cmp "$scratch/here" "$scratch/there"
rm -rf "$scratch/fresh one"
"$DISC_GEN" "$scratch/classes.onnx" -o "$scratch/fresh one" >"$scratch/said.out" 2>&1 || fail "disc-gen into a path with spaces"
check "made and built in a path with spaces" make -s -C "$scratch/fresh one" DEVICE=host
check "runs by a link to it" ln -sf "$scratch/fresh one/trainer" "$scratch/linked"
"$scratch/linked" --batch-file "$scratch/rows.safetensors" --progress never >"$scratch/said.out" 2>&1 || fail "the trainer called by a link: $(cat "$scratch/said.out")"

# twice, and with one thread and two
for name in letters tracks; do
    build $name models/$name.onnx
    for threads in 1 2 2; do
        OMP_NUM_THREADS=$threads "$built/trainer" --batch-file "$scratch/$name.safetensors" --steps 12 --progress never --log "$scratch/$name.threads$threads.log" \
            --save-weights "$scratch/$name.threads$threads.new" >"$scratch/said.out" 2>&1 || fail "$name, $threads threads: $(cat "$scratch/said.out")"
        if [ -f "$scratch/$name.threads$threads" ]; then check "$name: twice bit for bit" cmp "$scratch/$name.threads$threads" "$scratch/$name.threads$threads.new"; fi
        mv "$scratch/$name.threads$threads.new" "$scratch/$name.threads$threads"
    done
    python3 - "$scratch/$name" <<'END' || fail "$name: one thread and two differ by more than rounding"
import sys
sys.path.insert(0, "test/support")
import checks, tensors as t
a, b = [t.read(sys.argv[1] + end)[0] for end in (".threads1", ".threads2")]
assert a.keys() == b.keys()
worst = max(abs(x - y) for k in a for x, y in zip(t.numbers(a[k]), t.numbers(b[k])))
losses = [checks.losses(checks.lines(sys.argv[1] + end)) for end in (".threads1.log", ".threads2.log")]
off = max(abs(x - y) / abs(x) for x, y in zip(*losses))
print("%s: weights differ by %.1e at most, losses by %.1e" % (sys.argv[1].split("/")[-1], worst, off))
assert len(losses[0]) == len(losses[1]) == 12 and off < 1e-5 and worst < 2e-3
END
done
finish
