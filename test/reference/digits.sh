# Hundreds of steps on real data, losses and held-out accuracy against PyTorch's.
[ -d ../shared/zoo/digits_real ] || { echo "skipped: ../shared/zoo/digits_real is not there"; exit 77; }
exec python3 ../shared/tools/check_real.py ../shared/zoo/digits_real --disc-gen "$DISC_GEN"
