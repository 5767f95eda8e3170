# Comparisons of symbolic sizes, judged by z3.  PYTHON=a Python that has z3 (pip install z3-solver into an environment of its own).
python=${PYTHON:-python3}
"$python" -c 'import z3' 2>/dev/null || { echo "skipped: $python has no z3; python3 -m venv V && V/bin/pip install z3-solver, then PYTHON=V/bin/python"; exit 77; }
seed=${SEED:-$(date +%s)}
echo "seed $seed"
"$TEST_OUT/symbolic_fuzz" "${CASES:-400}" "$seed" pairs | "$python" test/fuzz/judge.py
