/* test.onnx -> model.cu
 * loss       mse(y), optimizer adamw, fp32
 * dims       batch 1..64 ~ 8
 * train      11 kernels, bytes moved 1280*batch + 24816, least possible 368*batch + 16128
 * made by    disc-gen models/test.onnx -o build */
#include "model.h"
#include "runtime/device/device.h"
#include "runtime/device/blas.h"
#include "runtime/controller/step.h"

/* Epilogue of a product, a loop kernel, of "/up/Add", "/Tanh"
 * projected (batch, 32), bias (32) -> y (batch, 32)
 * 2 operations in one: 512*batch bytes less to move */
template <class Index>
__global__ void bias_tanh(float *y, const float *projected, const float *__restrict__ bias, Index rows)
{
    FOR_ROWS (row, rows) {
        const Index at = row * 32;
        FOR_LANES (j, 32) y[at + j] = tanhf(projected[at + j] + bias[j]);
    }
}

/* Row kernel of "loss"
 * projected (batch, 4), target (batch, 4) -> difference_out (batch, 4), y ()
 * 3 operations in one: 48*batch bytes less to move */
template <class Index>
__global__ ORDERED void squares_of_all(float *difference_out, float *__restrict__ y, const float *projected, const float *target,
                                       Index n)
{
    FOR_ROWS (row, 1) {
        float squares = 0;
        REDUCES(+, squares)
        FOR_THREADS (j, n) {
            const float difference = projected[j] - target[j];
            const float squared = difference * difference;
            difference_out[j] = difference;
            squares += squared;
        }
        squares = block_sum(squares);
        if (FIRST_THREAD) y[row] = squares;
    }
}

/* Loop kernel of "loss"
 * x (batch, 4) -> y (batch, 4) */
template <class Index>
__global__ void mul_each(float *y, const float *x, Index n)
{
    FOR_EACH_FOURS (four, n) {
        const Four<float> x_4(x + four);
        FourResults<float> y_4(y + four);
        FOR_FOUR_EACH (i, four, n) y_4[i] = 2.f * x_4[i];
    }
}

/* Column kernel of "/Tanh", "/up/Add"
 * gradient (batch, 32), tangent (batch, 32) -> product_out (batch, 32), y (32)
 * 4 operations in one: 896*batch bytes less to move */
template <class Index>
__global__ void tanh_gradient_and_sum(float *product_out, float *__restrict__ y, const float *gradient, const float *tangent,
                                      Index rows, Index columns)
{
    FOR_ROWS (block, strips(columns)) {
        const Index column = block * STRIP, width = strip_width(columns, column);
        float sum[STRIP_OWN];
        FOR_STRIP (k, width) sum[OWN(k)] = 0;
        for (Index r = 0; r < rows; r++) {
            const Index at = column + r * columns;
            FOR_STRIP (k, width) {
                const float tangent_k = tangent[at + k];
                const float product = gradient[at + k] * (1.f - tangent_k * tangent_k);
                product_out[at + k] = product;
                sum[OWN(k)] += product;
            }
        }
        FOR_STRIP (k, width) y[column + k] = sum[OWN(k)];
    }
}

/* Update kernel of "down.weight"; also of "up.bias"; "up.weight"
 * gradient (32, 4) -> weight (32, 4), state
 * 22 operations in one: 19096 bytes less to move */
template <class Index>
__global__ void update(float *weight, WeightState<float> state, bool *__restrict__ kept, const float *gradient, Hypers hypers,
                       Index n)
{
    int refused = 0;
    const float decay = hypers.lr * hypers.weight_decay;
    const float root = sqrtf(hypers.bias_correction2);
    const float rate = hypers.lr / hypers.bias_correction1;
    FOR_EACH_FOURS (four, n) {
        FourInPlace<float> exp_avg_4(state.exp_avg + four), exp_avg_sq_4(state.exp_avg_sq + four);
        FourInPlace<float> weight_4(weight + four);
        const Four<float> gradient_4(gradient + four);
        REDUCES(|, refused)
        FOR_FOUR_ELEMENTS (i, four, n) {
            const float exp_avg_i = exp_avg_4[i];
            const float gradient_i = gradient_4[i];
            const float next_exp_avg = hypers.beta1 * exp_avg_i + hypers.one_minus_beta1 * gradient_i;
            const float exp_avg_sq_i = exp_avg_sq_4[i];
            const float next_exp_avg_sq = hypers.beta2 * exp_avg_sq_i + hypers.one_minus_beta2 * (gradient_i * gradient_i);
            const float weight_i = weight_4[i];
            const float next_weight = weight_i - decay * weight_i
                    - rate * (next_exp_avg / (sqrtf(next_exp_avg_sq) / root + hypers.eps));
            const bool finite = absolute(next_weight + next_exp_avg + next_exp_avg_sq) < INFINITY;
            refused |= !finite;
            exp_avg_4[i] = finite ? next_exp_avg : exp_avg_i;
            exp_avg_sq_4[i] = finite ? next_exp_avg_sq : exp_avg_sq_i;
            weight_4[i] = finite ? next_weight : weight_i;
        }
    }
    if (refused) raise_flag(kept);
}

/* One step of training.
 * Returns 0, or the error of the first launch that failed, or STEP_NOT_FINITE where the loss is no number.
 * unit(s, k) begins what the controller's tables count as the kth. */
STEP_FUNCTION int train_step(Step *s)
{
    const Dims &d = dims_of(s);
    const int64_t batch = d.batch;
    const Hypers hypers = hypers_of(s);
    const Weights *const w = weights_of(s);
    const States *const states = states_of(s);

    /* ---- forward ---- */
    /* -- up -- */
    float *const x = buffer<float>(s, TRAIN_X);                                                     /* (batch, 16) */
    float *const tanh = buffer<float>(s, TRAIN_TANH);                                               /* (batch, 32) */
    unit(s, 0);   dot(s, tanh, x, w->up_weight, 1, batch, 32, 16, PLAIN, PLAIN,
            EPILOGUE(s, bias_tanh, rows(batch, 32), 32)(tanh, tanh, w->up_bias, batch));            /* "/up/MatMul", "/up/Add", "/Tanh" */

    /* -- down -- */
    float *const down = buffer<float>(s, TRAIN_DOWN);                                               /* (batch, 4) */
    unit(s, 1);   dot(s, down, tanh, w->down_weight, 1, batch, 4, 32, PLAIN, PLAIN);                /* "/down/MatMul" */

    /* ---- loss ---- */
    float *const target = buffer<float>(s, TRAIN_TARGET);                                           /* (batch, 4) */
    float *const loss = buffer<float>(s, TRAIN_LOSS);                                               /* () */
    unit(s, 2);   LAUNCH(s, squares_of_all, rows(1, 8*batch), 32)(down, loss, down, target, 4*batch); /* "loss", in place */

    /* ---- commit: nothing above has changed a weight; nothing below is abandoned ---- */
    unit(s, 3);   if (int error = commit(s, loss)) return error;

    /* ---- backward; each weight is updated as soon as its gradient is complete and its last reader is done ---- */
    unit(s, 4);   LAUNCH(s, mul_each, fours(4*batch), 256)(down, down, 4*batch);                    /* "loss", in place */

    /* -- down -- */
    float *const d_down = buffer<float>(s, TRAIN_D_DOWN);                                           /* (32, 4) */
    unit(s, 5);   dot(s, d_down, tanh, down, 1, 32, 4, batch, TRANSPOSED, PLAIN);                   /* "/down/MatMul" */
    save_gradient(s, WEIGHT_DOWN_WEIGHT, d_down, 512);
    float *const d_tanh = buffer<float>(s, TRAIN_D_TANH);                                           /* (batch, 32) */
    unit(s, 6);   dot(s, d_tanh, down, w->down_weight, 1, batch, 32, 4, PLAIN, TRANSPOSED);         /* "/down/MatMul", "/Tanh", "/up/Add" */

    /* -- up -- */
    float *const d_up_add = buffer<float>(s, TRAIN_D_UP_ADD);                                       /* (32) */
    LAUNCH(s, tanh_gradient_and_sum, rows(1, 64*batch), 64)(d_tanh, d_up_add, d_tanh, tanh, batch, 32); /* "/Tanh", "/up/Add" */
    save_gradient(s, WEIGHT_UP_BIAS, d_up_add, 128);
    unit(s, 7);   LAUNCH(s, update, fours(128), 256)(w->down_weight, states->down_weight, s->kept + WEIGHT_DOWN_WEIGHT,
            d_down, hypers, 128);                                                                   /* "down.weight" */
    unit(s, 8);   LAUNCH(s, update, fours(32), 256)(w->up_bias, states->up_bias, s->kept + WEIGHT_UP_BIAS, d_up_add,
            hypers, 32);                                                                            /* "up.bias" */
    float *const d_up = buffer<float>(s, TRAIN_D_UP);                                               /* (16, 32) */
    unit(s, 9);   dot(s, d_up, x, d_tanh, 1, 16, 32, batch, TRANSPOSED, PLAIN);                     /* "/up/MatMul" */
    save_gradient(s, WEIGHT_UP_WEIGHT, d_up, 2048);
    unit(s, 10);  LAUNCH(s, update, fours(512), 256)(w->up_weight, states->up_weight, s->kept + WEIGHT_UP_WEIGHT, d_up,
            hypers, 512);                                                                           /* "up.weight" */
    return s->error;
}
