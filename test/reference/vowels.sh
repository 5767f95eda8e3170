# Hundreds of steps on real data, losses and held-out accuracy against PyTorch's.
[ -d ../shared/zoo/vowels_real ] || { echo "skipped: ../shared/zoo/vowels_real is not there"; exit 77; }
exec python3 ../shared/tools/check_real.py ../shared/zoo/vowels_real --disc-gen "$DISC_GEN"
