# Fused programs against those of --no-fuse, on every model of ../shared/zoo: losses and gradients within 1e-5.
[ -d ../shared/zoo ] || { echo "skipped: ../shared/zoo is not there"; exit 77; }
exec python3 test/reference/fused.py "$DISC_GEN" "$TEST_OUT/fused"
