/* test.onnx -> model.cu
 * loss   mse(y), optimizer adamw, fp32
 * dims   n 1..64 ~ 8, time 1..512 ~ 32
 * train    8 kernels; bytes moved 320*n*time + 160*n + 3112,
 *          least possible 160*n*time + 32*n + 1536
 * made by disc-gen models/test.onnx -o build */
#include "model.h"
#include "runtime/device/device.h"
#include "runtime/device/blas.h"
#include "runtime/device/tile.h"
#include "runtime/controller/step.h"

/* transpose_each: f32[8, 8] = transpose  "/rnn" */
template <class Index>
__global__ void transpose_each(float *__restrict__ y, const float *__restrict__ a)
{
    FOR_ROWS (row, 8) {
        const Index at = row * 8;
        FOR_LANES (j, 8) y[at + j] = a[row + j * 8];
    }
}

/* body_over_time: f32[n, 8], f32[time, n, 8], f32[time, n, 8] = scan  "/rnn" */
__global__ void body_over_time(float *__restrict__ y0, float *__restrict__ y1, float *__restrict__ y2,
                               const float *__restrict__ r, const float *__restrict__ h_first, const float *__restrict__ x,
                               int64_t n0, int64_t n1)
{
    FOR_ROW_BLOCKS (first, last, n0) {
        const float *h = h_first;
        for (int64_t i = 0; i < n1; i++) {
            const int64_t t = i;
            const float *const x_t = x + t * (n0 * 8);
            float *const y1_t = y1 + t * (n0 * 8);
            float *const y2_t = y2 + t * (n0 * 8);
            rows_dot_each(h, strided(r, 8, 1), first, last, 8, 8, [=](int64_t row, int64_t j, float sum) INLINED {
                y1_t[row * 8 + j] = tanhf(sum + x_t[row * 8 + j]);
            });
            __syncthreads();
            FOR_BLOCK_ROWS (row, first, last) {
                const int64_t at = row * 8;
                FOR_ROW_LANES (j, 8) y2_t[at + j] = h[at + j];
            }
            __syncthreads();
            h = y1_t;
        }
        FOR_BLOCK_ROWS (row, first, last) {
            const int64_t at2 = row * 8;
            FOR_ROW_LANES (j, 8) y0[at2 + j] = h[at2 + j];
        }
    }
}

/* reduce_sum: f32[] = reduce_sum  "loss" */
template <class Index>
__global__ void reduce_sum(float *__restrict__ y, const float *__restrict__ a, Index n0)
{
    FOR_ROWS (row, 1) {
        float s = 0;
        REDUCES(+, s)
        FOR_THREADS (j, n0) s += a[j];
        s = block_sum(s);
        if (FIRST_THREAD) y[row] = s;
    }
}

/* broadcast_each: f32[n, 8] = broadcast  "/rnn" */
template <class Index>
__global__ void broadcast_each(float *__restrict__ y, Index n0)
{
    FOR_EACH (i, n0) y[i] = 0.f;
}

/* broadcast_each_2: f32[time, n, 8] = broadcast  "loss" */
template <class Index>
__global__ void broadcast_each_2(float *__restrict__ y, Index n0)
{
    FOR_EACH (i, n0) y[i] = 1.f;
}

/* gradient_over_time: f32[n, 8], f32[time, n, 8] = scan  "/rnn" */
__global__ void gradient_over_time(float *__restrict__ y0, float *__restrict__ y1, const float *__restrict__ r,
                                   const float *__restrict__ gradient_of_carry_first,
                                   const float *__restrict__ gradient_of_stacked, const float *__restrict__ stash,
                                   float *__restrict__ gradient_of_carry_both, int64_t n0, int64_t n1)
{
    FOR_ROW_BLOCKS (first, last, n0) {
        const float *gradient_of_carry = gradient_of_carry_first;
        for (int64_t i = 0; i < n1; i++) {
            const int64_t t = n1 - 1 - i;
            const float *const gradient_of_stacked_t = gradient_of_stacked + t * (n0 * 8);
            const float *const stash_t = stash + t * (n0 * 8);
            float *const y1_t = y1 + t * (n0 * 8);
            float *const gradient_of_carry_next = gradient_of_carry_both + i % 2 * (n0 * 8);
            FOR_BLOCK_ROWS (row, first, last) {
                const int64_t at = row * 8;
                FOR_ROW_LANES (j, 8) {
                    const float v = gradient_of_carry[at + j] + gradient_of_stacked_t[at + j];
                    const float v2 = stash_t[at + j];
                    y1_t[at + j] = v * (1.f - v2 * v2);
                }
            }
            __syncthreads();
            rows_dot(gradient_of_carry_next, y1_t, strided(r, 8, 1), first, last, 8, 8);
            __syncthreads();
            gradient_of_carry = gradient_of_carry_next;
        }
        FOR_BLOCK_ROWS (row, first, last) {
            const int64_t at2 = row * 8;
            FOR_ROW_LANES (j, 8) y0[at2 + j] = gradient_of_carry[at2 + j];
        }
    }
}

/* update: f32[8, 8], f32[8, 8], f32[8, 8] = mul, mul, sub, mul, mul, add, mul, mul, mul, add, sqrt, sqrt, div, add, div, div, mul, sub  "r" */
template <class Index>
__global__ void update(float *new_exp_avg, float *new_exp_avg_sq, float *new_weight, const float *exp_avg, const float *gradient,
                       const float *exp_avg_sq, const float *weight, float beta1, float one_minus_beta1, float beta2,
                       float one_minus_beta2, float lr, float weight_decay, float bias_correction1, float bias_correction2,
                       float eps, Index n)
{
    const float v5 = lr * weight_decay;
    const float v6 = sqrtf(bias_correction2);
    const float v7 = lr / bias_correction1;
    FOR_EACH (i, n) {
        const float v = gradient[i];
        const float v2 = beta1 * exp_avg[i] + one_minus_beta1 * v;
        const float v3 = beta2 * exp_avg_sq[i] + one_minus_beta2 * (v * v);
        const float v4 = weight[i];
        const float v8 = v4 - v5 * v4 - v7 * (v2 / (sqrtf(v3) / v6 + eps));
        new_exp_avg[i] = v2;
        new_exp_avg_sq[i] = v3;
        new_weight[i] = v8;
    }
}


/* One step of training.  Returns 0, or the error of the first launch that failed, or STEP_NOT_FINITE where the loss is no number. */
STEP_FUNCTION int train_step(Step *s)
{
    const Dims *const d = dims_of(s);
    const int64_t n = d->n, time = d->time;
    const float weight_decay = (float)s->hypers[HYPER_WEIGHT_DECAY];
    const float lr = (float)s->hypers[HYPER_LR];
    const float one_minus_beta1 = (float)s->hypers[HYPER_ONE_MINUS_BETA1];
    const float beta1 = (float)s->hypers[HYPER_BETA1];
    const float one_minus_beta2 = (float)s->hypers[HYPER_ONE_MINUS_BETA2];
    const float beta2 = (float)s->hypers[HYPER_BETA2];
    const float bias_correction2 = (float)s->hypers[HYPER_BIAS_CORRECTION2];
    const float eps = (float)s->hypers[HYPER_EPS];
    const float bias_correction1 = (float)s->hypers[HYPER_BIAS_CORRECTION1];
    const Weights *const w = weights_of(s);
    const States *const states = states_of(s);

    /* ---- forward ---- */
    float *const rnn_transpose = buffer<float>(s, TRAIN_RNN_TRANSPOSE);                             /* (8, 8) */
    float *const rnn = buffer<float>(s, TRAIN_RNN);                                                 /* (n, 8) */
    unit(s, 0);   LAUNCH(s, transpose_each, rows(8, 8), 32)(rnn_transpose, w->r);                   /* "/rnn" */
    float *const h = buffer<float>(s, TRAIN_H);                                                     /* (n, 8) */
    float *const x = buffer<float>(s, TRAIN_X);                                                     /* (time, n, 8) */
    float *const rnn_scan_1 = buffer<float>(s, TRAIN_RNN_SCAN_1);                                   /* (time, n, 8) */
    float *const rnn_scan_2 = buffer<float>(s, TRAIN_RNN_SCAN_2);                                   /* (time, n, 8) */
    unit(s, 1);   LAUNCH_PLAIN(s, body_over_time, rows(n, 145*time), 256)(rnn, rnn_scan_1, rnn_scan_2, rnn_transpose, h, x, n, time); /* "/rnn" */

    /* ---- loss ---- */
    float *const loss = buffer<float>(s, TRAIN_LOSS);                                               /* () */
    unit(s, 2);   LAUNCH(s, reduce_sum, rows(1, 8*n*time), 256)(loss, rnn_scan_1, 8*n*time);        /* "loss" */

    /* ---- commit: nothing above has changed a weight; nothing below is abandoned ---- */
    unit(s, 3);   if (int error = commit(s, loss)) return error;

    /* ---- backward; each weight is updated as soon as its gradient is complete and its last reader is done ---- */
    float *const d_rnn_broadcast = buffer<float>(s, TRAIN_D_RNN_BROADCAST);                         /* (n, 8) */
    unit(s, 4);   LAUNCH(s, broadcast_each, elements(8*n), 256)(d_rnn_broadcast, 8*n);              /* "/rnn" */
    float *const d_loss = buffer<float>(s, TRAIN_D_LOSS);                                           /* (time, n, 8) */
    unit(s, 5);   LAUNCH(s, broadcast_each_2, elements(8*n*time), 256)(d_loss, 8*n*time);           /* "loss" */
    float *const d_rnn_scan = buffer<float>(s, TRAIN_D_RNN_SCAN);                                   /* (n, 8) */
    float *const d_rnn_scan_1 = buffer<float>(s, TRAIN_D_RNN_SCAN_1);                               /* (time, n, 8) */
    char *const gradient_over_time_scratch = buffer<char>(s, TRAIN_GRADIENT_OVER_TIME_SCRATCH);
    unit(s, 6);   LAUNCH_PLAIN(s, gradient_over_time, rows(n, 161*time), 256)(d_rnn_scan, d_rnn_scan_1, w->r, d_rnn_broadcast,
            d_loss, rnn_scan_1, (float *)gradient_over_time_scratch, n, time);                      /* "/rnn" */
    float *const d_rnn = buffer<float>(s, TRAIN_D_RNN);                                             /* (8, 8) */
    unit(s, 7);   dot(s, d_rnn, d_rnn_scan_1, rnn_scan_2, 1, 8, 8, n*time, 1, 0);                   /* "/rnn" */
    save_gradient(s, WEIGHT_R, d_rnn, 256);
    unit(s, 8);   LAUNCH(s, update, elements(64), 256)(states->r_exp_avg, states->r_exp_avg_sq, w->r, states->r_exp_avg, d_rnn,
            states->r_exp_avg_sq, w->r, beta1, one_minus_beta1, beta2, one_minus_beta2, lr, weight_decay,
            bias_correction1, bias_correction2, eps, 64);                                           /* "r" */
    return s->error;
}
