# Nothing is allocated while a step runs, and the device's high-water mark is peak_bytes, to the byte (test/memory/step.c).
. test/check.inc
. test/build.inc
python3 test/memory/budget.py "$scratch"
blas=/usr/lib/$(cc -print-multiarch)/openblas-openmp
for name in letters tracks; do
    build $name models/$name.onnx
    cc -std=gnu11 -O1 -I"$built" -c test/memory/step.c -o "$scratch/step.o" &&
        g++ -fopenmp -o "$scratch/step" "$scratch/step.o" $(find "$built/objects-host" -name '*.o' ! -name main.o) -L"$blas" -Wl,-rpath,"$blas" -lopenblas -lzip -lcjson \
            -lpthread -ldl -lm $([ "$(uname -m)" != x86_64 ] || echo -lmvec) || { fail "$name: does not link"; continue; }
    check "$name" "$scratch/step" "$scratch/$name.safetensors" "$built/weights.safetensors"
done
finish
