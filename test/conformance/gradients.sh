#!/bin/bash
# Gradients of a sample of ONNX's node tests (sample.txt), as compiled programs, against differences.  The whole: make
# conformance-gradients.
cd "$(dirname "$0")/../.." || exit 1
export TEST_OUT=${TEST_OUT:-$PWD/out/test}
exec bash test/conformance/run.sh -v gradients -s
