# Loss and gradients of the zoo's models, from the training graph alone, against PyTorch's in float64.
ls ../shared/zoo/*/golden.json >/dev/null 2>&1 || { echo "skipped: ../shared/zoo is not there"; exit 77; }
exec "$TEST_OUT/interpret_golden" $(dirname ../shared/zoo/*/golden.json)
