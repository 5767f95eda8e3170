#!/bin/bash
# Runs ONNX's node tests as compiled programs on the host, first with the shapes that the models state, then with every dim that may
# vary a symbol.  Prints what failed, then passed, failed, left out.
#
#   run.sh [-v fixed|symbolic|gradients|symbolic-gradients] [-s] [PATTERN...]
#       -v: only that variant; gradients: of a loss by all float inputs, in double precision, against differences, with a line an operator; -s: a sample, one or two tests an operator; PATTERN: only tests whose name matches, as in test_conv*
#
# left_out.txt names the tests that are left out, with reasons; one of them that passes is reported.  Exit status 1 where a test
# failed that is not listed; 77 where ../shared has no tests.
# Needs TEST_OUT with conformance_batch and conformance_runner.a, which `make conformance` builds.
set -u
cd "$(dirname "$0")/../.."
export TEST_OUT=${TEST_OUT:-$PWD/out/test}
here=test/conformance archive=../shared/conformance/onnx_node_tests_1.23.tar.xz
jobs=${JOBS:-2} size=50 variants="fixed symbolic" sample=
while getopts v:s option; do
    case $option in
    v) variants=$OPTARG ;;
    s) sample=-sample ;;
    *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))

work=$TEST_OUT/conformance tests=$TEST_OUT/conformance/node
[ -f "$archive" ] || { echo "skipped: $archive is not here"; exit 77; }
mkdir -p "$work"
(flock 9 && { [ -f "$work/unpacked" ] || { tar -xJf "$archive" -C "$work" && touch "$work/unpacked"; }; }) 9>"$work/lock" || exit 1

# ---- which ----
all=$(cd "$tests" && ls -d test_*)
if [ $# -gt 0 ]; then
    all=$(for name in $all; do for pattern in "$@"; do [[ $name == $pattern ]] && echo "$name" && break; done; done)
elif [ -n "$sample" ]; then
    all=$(cat $here/sample.txt)
fi
[ -n "$all" ] || { echo "no test has such a name"; exit 2; }

# ---- one variant: results in $work/VARIANT/results.txt: name, passed|failed, what was said ----
run_variant() {
    local variant=$1 out=$work/$1$sample
    rm -rf "$out" && mkdir -p "$out"
    # Neighbours in the alphabet are alike: dealt out, units take about the same time.
    count=$(wc -w <<<"$all") units=$(((count + size - 1) / size))
    [ $units -lt "$jobs" ] && units=$jobs
    echo "$all" | awk -v n=$units -v out="$out" '{ print >(out "/names." NR % n) }'
    ls "$out" | sed -n 's/^names\.//p' |
        xargs -P "$jobs" -I{} sh -c "bash $here/unit.sh $variant $tests $out/unit{} <$out/names.{} || echo unit {} of $variant is broken"
    cat "$out"/unit*/made.txt >"$out/made.txt"
    awk -F'\t' -v OFS='\t' '
        FILENAME ~ /names\.[0-9]+$/ { order[++n] = $1; result[$1] = "failed"; said[$1] = "was not generated"; next }
        FILENAME ~ /made.txt$/ { said[$1] = $2 == "made" ? "was not run" : $7; next }
        FILENAME ~ /uncompiled.txt$/ { said[$1] = $2; next }
        { result[$1] = $2; said[$1] = $3 }
        END { for (i = 1; i <= n; i++) print order[i], result[order[i]], said[order[i]] }
    ' "$out"/names.* "$out/made.txt" "$out"/unit*/uncompiled.txt "$out"/unit*/ran.txt | sort >"$out/results.txt"
}

# ---- figures ----
tell() {
    local variant=$1 out=$work/$1$sample
    awk -F'\t' -v variant="$variant" '
        function pattern(text) { gsub(/[.+(){}\[\]^$|]/, "\\\\&", text); gsub(/\*/, ".*", text); return "^" text "$" }
        FILENAME ~ /left_out.txt$/ {
            if ($0 ~ /^(#|$)/) next
            split($0, words, /[ \t]+/)
            if (words[1] == "symbolic:" && variant != "symbolic") next
            name = words[1] == "symbolic:" ? words[2] : words[1]
            out[++n_out] = pattern(name)
            next
        }
        FILENAME ~ /made.txt$/ { made[$1] = $3 "\t" $4 "\t" $5 "\t" $6; next }
        {
            listed = 0
            for (i = 1; i <= n_out && !listed; i++) listed = $1 ~ out[i]
            if ($2 == "passed") {
                split(made[$1], n, "\t")
                varying += n[1]; dims += n[2]; frozen += n[3]; inputs += n[4]; models += n[3] > 0; empty += n[3] > 0 && n[3] == n[4]
                passed++
                if (listed) print "listed in left_out.txt, but passes: " $1
            }
            else if (listed) left++
            else { failed++; print "failed " $1 ": " $3 }
        }
        END {
            printf "%s: %d passed, %d failed, %d left out", variant == "fixed" ? "as exported" : "with symbols", passed, failed, left
            print ""
            printf "    of those that passed, %d models have inputs that decide on shapes made constants: %d of %d inputs", models, frozen, inputs
            printf "; %d models have none left\n", empty
            if (variant == "symbolic") printf "    %d of %d dims of inputs are symbols\n", varying, dims
            exit failed > 0
        }
    ' $here/left_out.txt "$out/made.txt" "$out/results.txt"
}

# The table, and what is worse than gradients.txt says: fewer tests checked (of a whole run), more left out.  UPDATE=1 writes it anew.
tell_gradients() {
    local out=$work/$1$sample whole=$2 bad=0
    awk -f $here/gradients.awk "$out/made.txt" "$out/results.txt" || bad=1
    awk -v brief=1 -f $here/gradients.awk "$out/made.txt" "$out/results.txt" >"$out/table.txt"
    if [ "${UPDATE-}" = 1 ] && [ -n "$whole" ]; then
        { sed -n '/^#/p' $here/gradients.txt; cat "$out/table.txt"; } >"$out/gradients.txt" && cp "$out/gradients.txt" $here/gradients.txt
    fi
    awk -v whole="$whole" '
        /^#/ { next }
        FILENAME ~ /gradients.txt$/ { checked[$1] = $2; left[$1] = $4; next }
        whole && $2 < checked[$1] { print "worse than gradients.txt: " $1 ": wanted " checked[$1] " tests checked, found " $2; bad = 1 }
        $4 > left[$1] { print "worse than gradients.txt: " $1 ": wanted " left[$1] + 0 " left out at most, found " $4; bad = 1 }
        END { exit bad }
    ' $here/gradients.txt "$out/table.txt" || bad=1
    return $bad
}

status=0
whole=yes
[ $# = 0 ] && [ -z "$sample" ] || whole=
for variant in $variants; do run_variant "$variant"; done
for variant in $variants; do
    if [[ $variant == *gradients ]]; then tell_gradients "$variant" "$whole" || status=1; else tell "$variant" || status=1; fi
done
exit $status
