# The time to generate grows with a graph's nodes, not faster.
exec bash test/scale/grows.inc 10000 20 1000
