/* test.onnx -> model.cu
 * loss       mse(y), optimizer adamw, fp32
 * dims       n 1..64 ~ 8, time 1..512 ~ 32
 * train      8 kernels, bytes moved 320*n*time + 160*n + 3112, least possible 160*n*time + 32*n + 1536
 * made by    disc-gen models/test.onnx -o build */
#include "model.h"
#include "runtime/device/device.h"
#include "runtime/device/blas.h"
#include "runtime/device/tile.h"
#include "runtime/controller/step.h"

/* Copying kernel of "/rnn"
 * weight (8, 8) -> y (8, 8) */
template <class Index>
__global__ void transpose_each(float *__restrict__ y, const float *__restrict__ weight, Index rows)
{
    FOR_ROWS (row, rows) {
        const Index at = row * rows;
        FOR_LANES (j, rows) y[at + j] = weight[row + j * rows];
    }
}

/* Scan kernel, all steps of its rows, of "/rnn"
 * r_in (8, 8), h_first (n, 8), x (time, n, 8) -> h_last (n, 8), h_all (time, n, 8), h_before (time, n, 8) */
__global__ void body_over_time(float *__restrict__ h_last, float *__restrict__ h_all, float *__restrict__ h_before,
                               const float *__restrict__ r_in, const float *__restrict__ h_first, const float *__restrict__ x,
                               int64_t rows, int64_t steps)
{
    FOR_ROW_BLOCKS (first, last, rows) {
        const float *h = h_first;
        for (int64_t t = 0; t < steps; t++) {
            const float *const x_t = x + t * (rows * 8);
            float *const h_all_t = h_all + t * (rows * 8);
            float *const h_before_t = h_before + t * (rows * 8);
            rows_dot_each(h, strided(r_in, 8, 1), first, last, 8, 8, [=](int64_t row, int64_t j, float sum) INLINED {
                h_all_t[row * 8 + j] = tanhf(sum + x_t[row * 8 + j]);
            });
            __syncthreads();
            FOR_BLOCK_ROWS (row, first, last) {
                const int64_t at = row * 8;
                FOR_ROW_LANES (j, 8) h_before_t[at + j] = h[at + j];
            }
            __syncthreads();
            h = h_all_t;
        }
        FOR_BLOCK_ROWS (row, first, last) {
            const int64_t at = row * 8;
            FOR_ROW_LANES (j, 8) h_last[at + j] = h[at + j];
        }
    }
}

/* Row kernel of "loss"
 * h_all (time, n, 8) -> y () */
template <class Index>
__global__ ORDERED void sum_of_all(float *__restrict__ y, const float *__restrict__ h_all, Index n)
{
    FOR_ROWS (row, 1) {
        float sum = 0;
        FOR_FOURS (four, n) {
            const Four<float> h_all_4(h_all + four);
            REDUCES(+, sum)
            FOR_FOUR_THREADS (j, four, n) sum += h_all_4[j];
        }
        sum = block_sum(sum);
        if (FIRST_THREAD) y[row] = sum;
    }
}

/* Copying kernel of "/rnn"
 * -> y (n, 8) */
template <class Index>
__global__ void fill(float *__restrict__ y, Index n)
{
    FOR_EACH_FOURS (four, n) {
        FourResults<float> y_4(y + four);
        FOR_FOUR_EACH (i, four, n) y_4[i] = 0.f;
    }
}

/* Copying kernel of "loss"
 * -> y (time, n, 8) */
template <class Index>
__global__ void fill_2(float *__restrict__ y, Index n)
{
    FOR_EACH_FOURS (four, n) {
        FourResults<float> y_4(y + four);
        FOR_FOUR_EACH (i, four, n) y_4[i] = 1.f;
    }
}

/* Scan kernel, all steps of its rows, of "/rnn"
 * r_in (8, 8), gradient_first (n, 8), gradient_of_stacked (time, n, 8), h_all (time, n, 8) -> gradient_last (n, 8),
 *    gradients (time, n, 8) */
__global__ void gradient_over_time(float *__restrict__ gradient_last, float *__restrict__ gradients,
                                   const float *__restrict__ r_in, const float *__restrict__ gradient_first,
                                   const float *__restrict__ gradient_of_stacked, const float *__restrict__ h_all,
                                   float *__restrict__ gradient_both, int64_t rows, int64_t steps)
{
    FOR_ROW_BLOCKS (first, last, rows) {
        const float *gradient = gradient_first;
        for (int64_t t = steps - 1; t >= 0; t--) {
            const float *const gradient_of_stacked_t = gradient_of_stacked + t * (rows * 8);
            const float *const h_all_t = h_all + t * (rows * 8);
            float *const gradients_t = gradients + t * (rows * 8);
            float *const gradient_next = gradient_both + t % 2 * (rows * 8);
            FOR_BLOCK_ROWS (row, first, last) {
                const int64_t at = row * 8;
                FOR_ROW_LANES (j, 8) {
                    const float h_all_now = h_all_t[at + j];
                    gradients_t[at + j] = (gradient[at + j] + gradient_of_stacked_t[at + j]) * (1.f - h_all_now * h_all_now);
                }
            }
            __syncthreads();
            rows_dot(gradient_next, gradients_t, strided(r_in, 8, 1), first, last, 8, 8);
            __syncthreads();
            gradient = gradient_next;
        }
        FOR_BLOCK_ROWS (row, first, last) {
            const int64_t at = row * 8;
            FOR_ROW_LANES (j, 8) gradient_last[at + j] = gradient[at + j];
        }
    }
}

/* Update kernel of "r"
 * gradient (8, 8) -> weight (8, 8), state
 * 22 operations in one: 9560 bytes less to move */
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
    const int64_t n = d.n, time = d.time;
    const Hypers hypers = hypers_of(s);
    const Weights *const w = weights_of(s);
    const States *const states = states_of(s);

    /* ---- forward ---- */
    float *const rnn_transpose = buffer<float>(s, TRAIN_RNN_TRANSPOSE);                             /* (8, 8) */
    float *const rnn = buffer<float>(s, TRAIN_RNN);                                                 /* (n, 8) */
    unit(s, 0);   LAUNCH(s, transpose_each, rows(8, 8), 32)(rnn_transpose, w->r, 8);                /* "/rnn" */
    float *const h = buffer<float>(s, TRAIN_H);                                                     /* (n, 8) */
    float *const x = buffer<float>(s, TRAIN_X);                                                     /* (time, n, 8) */
    float *const rnn_h_all = buffer<float>(s, TRAIN_RNN_H_ALL);                                     /* (time, n, 8) */
    float *const rnn_h_before = buffer<float>(s, TRAIN_RNN_H_BEFORE);                               /* (time, n, 8) */
    unit(s, 1);   LAUNCH_PLAIN(s, body_over_time, rows(n, 145*time), 256)(rnn, rnn_h_all, rnn_h_before, rnn_transpose,
            h, x, n, time);                                                                         /* "/rnn" */

    /* ---- loss ---- */
    float *const loss = buffer<float>(s, TRAIN_LOSS);                                               /* () */
    unit(s, 2);   LAUNCH(s, sum_of_all, rows(1, 8*n*time), 256)(loss, rnn_h_all, 8*n*time);         /* "loss" */

    /* ---- commit: nothing above has changed a weight; nothing below is abandoned ---- */
    unit(s, 3);   if (int error = commit(s, loss)) return error;

    /* ---- backward; each weight is updated as soon as its gradient is complete and its last reader is done ---- */
    float *const d_rnn_broadcast = buffer<float>(s, TRAIN_D_RNN_BROADCAST);                         /* (n, 8) */
    unit(s, 4);   LAUNCH(s, fill, fours(8*n), 256)(d_rnn_broadcast, 8*n);                           /* "/rnn" */
    float *const d_loss = buffer<float>(s, TRAIN_D_LOSS);                                           /* (time, n, 8) */
    unit(s, 5);   LAUNCH(s, fill_2, fours(8*n*time), 256)(d_loss, 8*n*time);                        /* "loss" */
    float *const d_rnn_gradient_last = buffer<float>(s, TRAIN_D_RNN_GRADIENT_LAST);                 /* (n, 8) */
    float *const d_rnn_gradients = buffer<float>(s, TRAIN_D_RNN_GRADIENTS);                         /* (time, n, 8) */
    float *const scratch = buffer<float>(s, TRAIN_SCRATCH);
    unit(s, 6);   LAUNCH_PLAIN(s, gradient_over_time, rows(n, 161*time), 256)(d_rnn_gradient_last, d_rnn_gradients,
            w->r, d_rnn_broadcast, d_loss, rnn_h_all, scratch, n, time);                            /* "/rnn" */
    float *const d_rnn = buffer<float>(s, TRAIN_D_RNN);                                             /* (8, 8) */
    unit(s, 7);   dot(s, d_rnn, d_rnn_gradients, rnn_h_before, 1, 8, 8, n*time, TRANSPOSED, PLAIN); /* "/rnn" */
    save_gradient(s, WEIGHT_R, d_rnn, 256);
    unit(s, 8);   LAUNCH(s, update, fours(64), 256)(w->r, states->r, s->kept + WEIGHT_R, d_rnn, hypers, 64); /* "r" */
    return s->error;
}
