# The README's two examples, from disc-gen to picture: sensors drop out while they train, and what comes out is good.
. test/check.inc
unset MAKEFLAGS
above() { awk -v least="$2" -v what="$1" 'index($0, what) == 1 { n++; for (i = 1; i <= NF; i++) if ($i + 0 > 0) { if ($i < least) { print "found " $0; bad = 1 } break } } END { exit bad || !n }' "$scratch/said.out"; }
runs() { # name, steps, picture, batches set aside, a recording if any
    models/demo/sensors.sh "$1" "$DISC_GEN" "$scratch/$1" "$2" "${@:5}" >"$scratch/said.out" 2>"$scratch/said.err" || { fail "$1: $(tail -5 "$scratch/said.out" "$scratch/said.err")"; return; }
    grep -v '^  ' "$scratch/said.out"
    [ -s "$scratch/$1/$3" ] || fail "$1: no picture"
    [ "$(ls "$scratch/$1/set_aside" | wc -l)" = "$4" ] || fail "$1: set aside $(ls "$scratch/$1/set_aside")"
}
runs tracks 1500 errors.svg 10
for kind in jump frozen zigzag all; do check "odd tracks stand out: $kind" above "$kind:" 0.95; done
runs flow 1200 rates.svg 15
for rate in oil gas water; do check "rates are right: $rate" above "$rate:" 0.95; done
recording=../shared/data/daphnet_s06r02e0.csv
if [ -e $recording ]; then
    # Real accelerometers of a walker: the file marks no row, so what is odd is put in; a walk that freezes is easy to reconstruct, and so not asked for.
    runs tracks 1500 errors.svg 10 $recording
    for kind in jump zigzag; do check "odd windows of a recording stand out: $kind" above "$kind:" 0.7; done
fi
finish
