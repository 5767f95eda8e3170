# Gradients of single operators where they go wrong easily (nodes.py), against differences: in the interpreter, then as compiled programs with
# symbols for dims.
. test/check.inc
mkdir -p "$scratch/nodes" "$scratch/units"
python3 test/gradient/nodes.py "$scratch/nodes" || exit 1

# NAME RESULT ELEMENTS KINKS: every one agrees, and there was something to compare; all is at a kink only where that is the point
judge() {
    awk -v how="$1" '
        { n++; elements += $3; kinks += $4 }
        $2 != "passed" { print how ": " $0; bad++ }
        $2 == "passed" && $3 == 0 && $1 !~ /_of_nothing$/ { print how ": nothing was checked: " $0; bad++ }
        $4 > $3 / 2 && $1 !~ /_(ties|at_bounds)$/ { print how ": mostly at kinks: " $0; bad++ }
        END { printf "%s: %d models, %d elements, %d at kinks\n", how, n, elements, kinks; exit bad > 0 || n < 170 }
    ' "$2" || fail "$1"
}
"$TEST_OUT/interpret_conformance" -g "$scratch/nodes" >"$scratch/interpreted"
awk -F'\t' '/^test_/ { print $1, $3 == "gradient" ? $2 : "failed", $5 + 0, $6 + 0, $2 == "passed" ? "" : $0 }' "$scratch/interpreted" >"$scratch/interpreted.brief"
judge interpreted "$scratch/interpreted.brief"

ls "$scratch/nodes" >"$scratch/names"
split -n l/4 "$scratch/names" "$scratch/names."
for names in "$scratch"/names.*; do
    bash test/conformance/unit.sh symbolic-gradients "$scratch/nodes" "$scratch/units/${names##*.}" <"$names" || fail "unit ${names##*.}"
done
cat "$scratch"/units/*/made.txt | awk -F'\t' '$2 != "made" { print $1, "failed", 0, 0, $7 }' >"$scratch/compiled"
cat "$scratch"/units/*/uncompiled.txt | awk -F'\t' '{ print $1, "failed", 0, 0, $2 }' >>"$scratch/compiled"
cat "$scratch"/units/*/ran.txt | awk -F'\t' '{ print $1, $2, $3 }' >>"$scratch/compiled"
judge compiled "$scratch/compiled"
[ $failures = 0 ] || { echo "$failures failed; files are in $scratch"; exit 1; }
