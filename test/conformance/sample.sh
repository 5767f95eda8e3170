#!/bin/bash
# One or two of ONNX's node tests an operator (sample.txt), as compiled programs, with the shapes that the models state and with
# symbols.  The whole: make conformance.
cd "$(dirname "$0")/../.." || exit 1
export TEST_OUT=${TEST_OUT:-$PWD/out/test}
exec bash test/conformance/run.sh -s
