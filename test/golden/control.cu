/* test.onnx -> model.cu
 * dims       n 1..64 ~ 8
 * infer      5 kernels, bytes moved 256*n + 9, least possible 32*n + 1
 * made by    disc-gen models/test.onnx -o build */
#include "model.h"
#include "runtime/device/device.h"
#include "runtime/controller/step.h"

/* Loop kernel
 * index () -> y () */
template <class Index>
__global__ void lt_each(bool *__restrict__ y, const int64_t *__restrict__ index)
{
    FOR_EACH (i, 1) y[0] = index[0] < 3;
}

/* Loop kernel
 * x (n, 8) -> y (n, 8) */
template <class Index>
__global__ void tanh_each(float *y, const float *x, Index n)
{
    FOR_EACH_FOURS (four, n) {
        const Four<float> x_4(x + four);
        FourResults<float> y_4(y + four);
        FOR_FOUR_EACH (i, four, n) y_4[i] = tanhf(x_4[i]);
    }
}

/* Loop kernel
 * x (n, 8) -> y (n, 8) */
template <class Index>
__global__ void exp_each(float *y, const float *x, Index n)
{
    FOR_EACH_FOURS (four, n) {
        const Four<float> x_4(x + four);
        FourResults<float> y_4(y + four);
        FOR_FOUR_EACH (i, four, n) y_4[i] = expf(x_4[i]);
    }
}

/* Outputs of a batch.
 * Returns 0, or the error of the first launch that failed. */
STEP_FUNCTION int infer_step(Step *s)
{
    const Dims &d = dims_of(s);
    const int64_t n = d.n;

    /* ---- forward ---- */
    float *const x = buffer<float>(s, INFER_X);                                                     /* (n, 8) */
    float *const loop = buffer<float>(s, INFER_LOOP);                                               /* (n, 8) */
    copy_tensor(s, loop, x, 32*n);
    bool *const go = buffer<bool>(s, INFER_GO);                                                     /* () */
    int64_t *const iteration = buffer<int64_t>(s, INFER_ITERATION);                                 /* () */
    bool *const is_less = buffer<bool>(s, INFER_IS_LESS);                                           /* () */
    for (int64_t t = 0, more = read_flag(s, go); more && !s->error; t++) { /* "/loop" */
        write_int(s, iteration, t);
        LAUNCH(s, lt_each, elements(1), 256)(is_less, iteration);
        LAUNCH(s, tanh_each, fours(8*n), 256)(loop, loop, 8*n);
        more = read_flag(s, is_less);
    }
    float *const if_2 = buffer<float>(s, INFER_IF_2);                                               /* (n, 8) */
    if (read_flag(s, go)) { /* "/if" */
        LAUNCH(s, exp_each, fours(8*n), 256)(if_2, loop, 8*n);
    } else {
        copy_tensor(s, if_2, loop, 32*n);
    }
    return s->error;
}
