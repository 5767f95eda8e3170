# Random models (operators.py): each compiles or is refused with a message.  make SANITIZE=1 test looks for leaks and wild reads besides.
. test/check.inc
check "random models" python3 test/fuzz/operators.py "$DISC_GEN" "$scratch" "${RUNS-600}" "${SEED-1}"
finish
