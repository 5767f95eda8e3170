# Arenas are hardly larger than what is alive: within 1.05 of it over random dims and budgets of the zoo's models (arena.c).  SEED=n draws others.
. test/check.inc
. test/build.inc
[ -d ../shared/zoo ] || { echo "skipped: ../shared/zoo is not there"; exit 77; }
for name in $zoo_models; do
    build_zoo "remat_$name" "$name"
    link_with_built test/memory/arena.c "$scratch/$name" || { fail "$name: does not link"; continue; }
    printf '%-16s ' "$name"
    "$scratch/$name" 200 "${SEED:-1}" || fail "$name, seed ${SEED:-1}"
done
finish
