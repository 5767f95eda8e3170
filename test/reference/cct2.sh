# One SGD step against updates that another project verified by central differences.
[ -d ../shared/models/04_cct2_ft2 ] || { echo "skipped: ../shared/models/04_cct2_ft2 is not there"; exit 77; }
exec python3 ../shared/tools/check_cct2.py --disc-gen "$DISC_GEN"
