# From made.txt and results.txt of a run of gradients: a line an operator, as gradients.txt explains; then failures, reasons of what is left
# out, and the sums.  -v brief=1: the lines alone.
BEGIN { FS = "\t" }

function shorter(text) { # without the file's name
    sub(/^disc-gen: (user )?error: /, "", text)
    gsub(/[^ ]*\/test_[a-z0-9_]*(\/model\.onnx)?:? ?/, "", text)
    return substr(text, 1, 160)
}

function leave(name, op, why) {
    left[op]++
    n_left++
    reasons[why]++
    if (!(why in example)) example[why] = name
}

# Numbers rounded to eight bits and fewer have, in training, the gradient of those before rounding: differences see steps instead.
function straight_through(name) {
    return name ~ /^test_cast(like)?_.*_to_FLOAT[48]E/ || name ~ /^test_quantizelinear_(e4m3|e5m2|float4)/
}

FILENAME ~ /made.txt$/ { operator[$1] = $8; made[$1] = $2 == "made"; why[$1] = $7; next }
{
    op = operator[$1] == "" ? "(unreadable)" : operator[$1]
    seen[op]
    if (made[$1] && straight_through($1))
        leave($1, op, "straight through a rounding to few bits, where differences see steps")
    else if (made[$1] && $2 != "passed") {
        failures[++n_failed] = $1 ": " $3
        failed[op]++
    } else if (made[$1] && split($3, n, " ") == 4 && n[1] > 0) {
        checked[op]++
        elements[op] += n[1]
        kinks[op] += n[2]
        if (n[4] > worst[op]) worst[op] = n[4]
        n_checked++
        n_elements += n[1]
        n_kinks += n[2]
        n_rounding += n[3]
        if (n[4] > most) most = n[4]
    } else if (made[$1] && $3 ~ /^0 /) {
        none[op]++
        n_none++
    } else if (made[$1])
        leave($1, op, $3)
    else if (why[$1] ~ /no gradient: /) {
        none[op]++
        n_none++
    } else
        leave($1, op, shorter(why[$1]))
}
END {
    sort = "LC_ALL=C sort"
    for (op in seen) printf "%-28s %5d %5d %5d   %.0e\n", op, checked[op], none[op], left[op] + failed[op], worst[op] | sort
    close(sort)
    if (brief) exit
    for (i = 1; i <= n_failed; i++) print "failed " failures[i]
    for (r in reasons) printf "left out, %d (%s): %s\n", reasons[r], example[r], r
    printf "gradients: %d tests checked, %d elements, %d at kinks, %d told by rounding alone, worst relative error %.1e; %d without gradient; %d left out; %d failed\n",
        n_checked, n_elements, n_kinks, n_rounding, most, n_none, n_left, n_failed
    exit n_failed > 0
}
