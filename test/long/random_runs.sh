# 2,000 runs within random budgets are what their plans say (test/memory/random_runs.inc).
runs=2000
. test/memory/random_runs.inc
