# The schedule never takes more memory than the model's own order: for 1,000 random dims of each model of the zoo, the peak of a step within
# which nothing runs again, from the tables alone.  Prints the geometric mean of what is saved.  SEED=n draws other dims.
. test/check.inc
. test/build.inc
count=1000
seed=${SEED:-1}
models=$(ls -d ../shared/zoo/*/golden.json 2>/dev/null | xargs -rn1 dirname)
blas=/usr/lib/$(cc -print-multiarch)/openblas-openmp
build letters models/letters.onnx
runtime=$(find "$built/$host_objects/runtime" -name '*.o')

# The tables of a program and the runtime; what the tables name besides is in kernels, which are not compiled here.
link_tables() { # FOLDER PROGRAM
    cc -std=gnu11 -O2 -Wall -Wextra -Werror ${SANITIZERS-} -I"$1" -I"$1/runtime" -c test/memory/schedule.c -o "$2.o" && cc -std=gnu11 -O1 -w -I"$1" -c "$1/controller.c" -o "$2.tables.o" &&
        g++ -fopenmp -no-pie ${SANITIZERS-} -Wl,--unresolved-symbols=ignore-all -o "$2" "$2.o" "$2.tables.o" $runtime -L"$blas" -Wl,-rpath,"$blas" -lopenblas -lzip -lcjson -lpthread -ldl -lm
}

for model in $models models/letters models/tracks; do
    name=$(basename "$model")
    file=$model.onnx
    loss=
    if [ -d "$model" ]; then
        file=$model/model.onnx
        loss=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["loss"])' "$model/golden.json")
    fi
    for order in scheduled given; do
        "$DISC_GEN" "$file" -o "$scratch/$name.$order" --no-report ${loss:+--loss "$loss"} $([ $order = scheduled ] || echo --no-schedule) >/dev/null 2>&1 &&
            link_tables "$scratch/$name.$order" "$scratch/$name.$order/peaks" &&
            "$scratch/$name.$order/peaks" $count $seed >"$scratch/$name.$order.txt" || { fail "$name, $order"; continue 2; }
    done
    paste -d' ' "$scratch/$name.given.txt" "$scratch/$name.scheduled.txt" | awk -v name="$name" '
        { given = $1; at = ""; for (i = 2; i <= NF / 2; i++) at = at " " $i; scheduled = $(NF / 2 + 1)
          if (scheduled > given) { if (!above++) print name ": " scheduled " bytes, in the model'\''s own order " given ", at" at }
          if (scheduled / given > worst) worst = scheduled / given
          sum += log(scheduled / given); n++ }
        END { printf "%-16s %d dims: %.3f of the own order'\''s peak (geometric mean), %.3f at worst\n", name, n, exp(sum / n), worst; exit above > 0 }' || fail "$name: above the model's own order, seed $seed"
done
finish
