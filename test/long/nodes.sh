exec bash test/scale/grows.inc 100000 20 2000
