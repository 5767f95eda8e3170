#!/bin/bash
# Generates, compiles and runs the node tests named on standard input, as one program.
#
#   unit.sh fixed|symbolic|gradients|symbolic-gradients DIR UNIT      DIR/NAME: the tests; UNIT: a folder that is made
#
# Leaves UNIT/made.txt and UNIT/ran.txt (batch.c and runner.c say what stands there) and UNIT/uncompiled.txt: name, tab, message.
# Needs TEST_OUT, CXX where it is not g++, and SANITIZERS where the runtime was built with them.
set -u
variant=$1 tests=$2 unit=$3
cxx=${CXX:-g++}
mapfile -t names
mkdir -p "$unit"
: >"$unit/uncompiled.txt" >"$unit/ran.txt"
"$TEST_OUT/conformance_batch" "$variant" "$tests" "$unit" "${names[@]}" >"$unit/made.txt" || exit 1

without=()
for attempt in 1 2 3 4; do
    if "$cxx" -std=c++17 -O1 -fno-math-errno -fno-trapping-math -fopenmp ${SANITIZERS-} -w -I. "${without[@]}" -c -o "$unit/unit.o" "$unit/unit.cpp" 2>"$unit/messages.txt"; then
        blas=$(ls -d /usr/lib/*/openblas-openmp /usr/lib/openblas-openmp 2>/dev/null | head -1)
        "$cxx" -fopenmp ${SANITIZERS-} -o "$unit/runner" "$unit/unit.o" "$TEST_OUT/conformance_runner.a" \
            -L"$blas" -Wl,-rpath,"$blas" -lopenblas -lzip -lcjson -lpthread -lmvec -lm || exit 1
        OMP_NUM_THREADS=1 "$unit/runner" "$unit" $([[ $variant == *gradients ]] && echo gradients) >"$unit/ran.txt"
        exit
    fi
    # "UNIT/NAME/model.cu:12:3: error: ..." names who does not compile.
    grep -oE "[^/ ]+/(model\.cu|model\.h|controller\.c|row\.h):[0-9]+(:[0-9]+)?: (fatal )?error: .*" "$unit/messages.txt" |
        awk -F/ '!seen[$1]++ { print $1 "\tdoes not compile: " substr($0, length($1) + 2) }' >"$unit/culprits.txt"
    [ -s "$unit/culprits.txt" ] || break
    cat "$unit/culprits.txt" >>"$unit/uncompiled.txt"
    while IFS=$'\t' read -r name _; do without+=("-DWITHOUT_$name"); done <"$unit/culprits.txt"
done
echo "$unit/unit.cpp does not compile:" >&2
grep -m3 error "$unit/messages.txt" >&2
exit 1
