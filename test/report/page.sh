# report.html: its numbers are the trainer's at any dims, it needs nothing from elsewhere, names cannot break out of it, the same model
# gives the same bytes, --no-report leaves it out; in a browser, where there is one, it shows these numbers.
. test/check.inc
. test/build.inc
command -v node >/dev/null || { echo "skipped: node, which runs the page's arithmetic, is not there"; exit 77; }

numbers() { # NAME dims…
    local name=$1
    shift
    build $name models/$name.onnx
    check "$name: as the trainer says" python3 test/report/numbers.py "$built/trainer" "$built/report.html" "$@"
    if grep -n -E 'https?:|<link|<img|<iframe|src=|@import|url\(|fetch\(|XMLHttp|import\(' "$built/report.html"; then fail "$name: the page wants something from elsewhere"; fi
}
numbers letters "" batch=1,seq=1 batch=18,seq=256 batch=333,seq=77 batch=3,seq=2
numbers tracks "" batch=5,time=9
numbers shapes "" batch=2,height=31,width=57

# what the trainer refuses, the page does
for dims in "batch=100000000000 seq=256" "batch=3 seq=0"; do
    node test/report/evaluate.js "$TEST_OUT/built/letters/report.html" $dims | grep -q '"too_large":"[^"]' || fail "$dims: the page finds memory for it"
done

# the same bytes, and none where none is wanted
"$DISC_GEN" models/letters.onnx -o "$scratch/letters" >/dev/null 2>&1 || fail "disc-gen"
check "the same bytes" cmp "$scratch/letters/report.html" "$TEST_OUT/built/letters/report.html"
cp -r "$scratch/letters" "$scratch/without"
"$DISC_GEN" models/letters.onnx -o "$scratch/without" --no-report >/dev/null 2>&1 || fail "disc-gen --no-report"
check "--no-report" test -s "$scratch/without/model.cu" -a ! -e "$scratch/without/report.html"

# what each group saves adds up to what the program without fusing moves more
for name in shapes flow letters; do # within a little: what is written for attention and scans may be simplified or copied where they are written out
    "$DISC_GEN" models/$name.onnx -o "$scratch/unfused" --no-fuse >/dev/null 2>&1 || fail "$name: disc-gen --no-fuse"
    "$DISC_GEN" models/$name.onnx -o "$scratch/fused" >/dev/null 2>&1 || fail "$name: disc-gen"
    for page in "$scratch/fused" "$scratch/unfused"; do node test/report/evaluate.js "$page/report.html" program=evaluate; done >"$scratch/saved"
    check "$name: bytes saved" python3 -c '
import json, sys
fused, unfused = [json.loads(line) for line in open(sys.argv[1])]
more = unfused["bytes_moved"] - fused["bytes_moved"]
print(sys.argv[2], "saved", fused["saved"], "of", more)
assert unfused["saved"] == 0 < fused["saved"] and abs(fused["saved"] / more - 1) < (1e-9 if sys.argv[2] == "shapes" else 0.15)
' "$scratch/saved" $name
done

# why groups end where they do, as --dump fuse says
"$DISC_GEN" models/letters.onnx --dump fuse 2>/dev/null | sed -n 's/.* bytes: //p' | grep -v 'assign writes\|gives it out' | sort -u >"$scratch/reasons"
[ -s "$scratch/reasons" ] || fail "--dump fuse gives no reason"
while read -r reason; do
    grep -q -F "$reason" "$scratch/letters/report.html" || fail "the page does not say: $reason"
done <"$scratch/reasons"

# a model whose names look like the page's own text
python3 test/report/odd_names.py "$scratch/odd.onnx"
"$DISC_GEN" "$scratch/odd.onnx" -o "$scratch/odd" --loss 'mse("y</script>")' >"$scratch/odd.said" 2>&1 || fail "odd names: $(cat "$scratch/odd.said")"
[ "$(grep -o '</script>' "$scratch/odd/report.html" | wc -l)" = 3 ] || fail "a name ends the page's script"
check "odd names: it still computes" node test/report/evaluate.js "$scratch/odd/report.html" "a<b=7" >"$scratch/odd.json"
grep -q '"a<b":7' "$scratch/odd.json" || fail "odd names: $(cat "$scratch/odd.json")"

# in a browser: the dims of the address, and the same numbers in the page
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome)
if [ -n "$browser" ]; then
    for choice in "batch=18&seq=256" "batch=7&seq=33&budget=9MiB" "batch=9&seq=100&program=evaluate"; do
        dims=$(echo "$choice" | tr '&' ' ' | sed 's/budget=[^ ]*//')
        "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" --virtual-time-budget=5000 --dump-dom \
            "file://$scratch/letters/report.html#$choice" >"$scratch/dom.html" 2>/dev/null || fail "$browser: exit status $?"
        wanted=$(node test/report/evaluate.js "$scratch/letters/report.html" $dims | sed 's/.*"state_bytes":\([0-9]*\).*/\1/')
        grep -q "id=\"state_bytes\">$wanted<" "$scratch/dom.html" || fail "$choice: the browser does not show $wanted bytes of weights"
        live=$(sed -n 's/.*id="live_bytes">\([0-9]*\)<.*/\1/p' "$scratch/dom.html")
        case $choice in *budget*) ;; *)
            node test/report/evaluate.js "$scratch/letters/report.html" $dims | grep -q "\"live_bytes\":$live," || fail "$choice: the browser shows $live bytes alive" ;;
        esac
        case $choice in *budget*) [ "$live" -le $((9 * 1048576 - wanted)) ] || fail "$choice: $live bytes alive do not fit" ;; esac
    done
    # its sliders, tables and chart, moved by a script
    { cat "$scratch/letters/report.html"; echo "<script>"; cat test/report/drive.js; echo "</script>"; } >"$scratch/driven.html"
    "$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" --virtual-time-budget=20000 --dump-dom "file://$scratch/driven.html" 2>/dev/null |
        sed -n '1,12s|.*<title>\(.*\)</title>.*|\1|p' >"$scratch/driven.json"
    for dims in batch=1 batch=18 "batch=18 program=evaluate"; do node test/report/evaluate.js "$scratch/letters/report.html" $dims; done >"$scratch/wanted.json"
    check "moved sliders: $(cat "$scratch/driven.json")" python3 -c '
import json, sys
shown = json.load(open(sys.argv[1]))
least, numbered, evaluate = [json.loads(line)["live_bytes"] for line in open(sys.argv[2])]
assert (int(shown["least"]), int(shown["numbered"]), int(shown["evaluate"])) == (least, numbered, evaluate)
assert shown["address"] == "#batch=18&amp;seq=64" and shown["again"] == shown["numbered"]
assert int(shown["halved"]) < 0.8 * numbered and shown["given_up"] > 0
largest, smallest = [int(shown[k].replace(",", "")) for k in ("largest", "smallest")]
assert largest > 1000000 and smallest == 256 and shown["found"] >= 1
assert "made at launch" in shown["pointed"] and "2^50" in shown["wrong"]
assert "alive" in shown["at_peak"] and shown["at_peak"].startswith("launch ")
' "$scratch/driven.json" "$scratch/wanted.json"
else
    echo "no browser: the page itself was not opened"
fi
[ $failures = 0 ] || { echo "$failures failed; files are in $scratch"; exit 1; }
