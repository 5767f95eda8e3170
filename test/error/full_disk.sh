# A disk that is full, and files that may not grow: status 2 with the file and the reason; what was there before stays whole, nothing half
# written stays.  On a small tmpfs where that can be mounted; else only by the limit on a file's size.
. test/check.inc
. test/build.inc
python3 test/error/data.py "$scratch" || exit 1
build letters models/letters.onnx
train="$built/trainer --batch-file $scratch/letters.safetensors --progress never"
weights=$built/weights.safetensors

limited() { # blocks of 1024 bytes, command
    local blocks=$1
    shift
    (ulimit -f "$blocks" && exec "$@")
}
left() { # folder, number of files that may be there
    [ "$(find "$1" -type f | wc -l)" = "$2" ] || fail "$1: files are left: $(find "$1" -type f | head -3)"
}
mkdir "$scratch/limited"
expect "limit: generator" 2 limited 100 "$DISC_GEN" models/letters.onnx -o "$scratch/limited/gen"
left "$scratch/limited" 0
expect "limit: checkpoint" 2 limited 200 $train --steps 2 --checkpoint "$scratch/limited/checkpoint"
left "$scratch/limited" 0
expect "limit: weights" 2 limited 200 $train --steps 2 --save-weights "$scratch/limited/weights"
left "$scratch/limited" 0
expect "limit: gradients" 2 limited 200 $train --steps 2 --save-gradients "$scratch/limited/gradients"
left "$scratch/limited" 0
expect "limit: log" 2 limited 1 $train --steps 40 --log "$scratch/limited/log"
left "$scratch/limited" 1
$train --steps 1 --checkpoint "$scratch/limited/checkpoint" >/dev/null
cp "$scratch/limited/checkpoint/checkpoint.safetensors" "$scratch/before"
expect "limit: checkpoint over another" 2 limited 200 $train --steps 2 --checkpoint "$scratch/limited/checkpoint"
check "the checkpoint before is whole" cmp "$scratch/before" "$scratch/limited/checkpoint/checkpoint.safetensors"
check "and has a second name" cmp "$scratch/before" "$scratch/limited/checkpoint/checkpoint.before.safetensors"
left "$scratch/limited" 3
expect "limit: the log, but not the checkpoint" 2 limited 8000 sh -c "$train --steps 40 --log /dev/full --checkpoint $scratch/limited/checkpoint"
expect "output: generator" 2 sh -c "$DISC_GEN models/letters.onnx --dump import >/dev/full"
expect "output: --evaluate" 2 sh -c "$train --evaluate --json >/dev/full"
expect "output: --plan" 2 sh -c "$train --plan >/dev/full"

disk=$scratch/disk
mkdir "$disk"
if mount -t tmpfs -o size=2m none "$disk" 2>/dev/null; then
    trap 'umount "$disk"' EXIT
    head -c 1800000 /dev/zero >"$disk/filler" # some files have room, lean.h has not
    expect "full disk: generator" 2 "$DISC_GEN" models/letters.onnx -o "$disk/gen"
    left "$disk" 1
    head -c 1000000 /dev/zero >"$disk/filler"
    expect "full disk: checkpoint" 2 $train --steps 2 --checkpoint "$disk/checkpoint"
    left "$disk" 1
    expect "full disk: weights" 2 $train --steps 2 --save-weights "$disk/weights"
    left "$disk" 1
    rm "$disk/filler"
    "$DISC_GEN" models/tracks.onnx -o "$disk/gen" >/dev/null 2>&1 || fail "a small model fits"
    (cd "$disk/gen" && find . -type f -exec cksum {} + | sort) >"$scratch/sums"
    head -c 3000000 /dev/zero >"$disk/filler" 2>/dev/null # to the last byte
    expect "full disk: generator over another model" 2 "$DISC_GEN" models/letters.onnx -o "$disk/gen"
    (cd "$disk/gen" && find . -type f -exec cksum {} + | sort) | diff "$scratch/sums" - || fail "the folder before is not whole"
    expect "full disk: log" 2 $train --steps 2 --log "$disk/log"
else
    sed '/^== full disk/,$d' "${0%.sh}.expected" >"$scratch/without"
    expected=$scratch/without
fi
finish
