# 480 runs within random budgets are what their plans say (random_runs.inc).
runs=480
. test/memory/random_runs.inc
