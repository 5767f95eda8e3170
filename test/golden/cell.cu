/* test.onnx -> model.cu
 * loss   mse(y), optimizer adamw, fp32
 * dims   n 1..64 ~ 8, time 1..512 ~ 32
 * train    14 kernels; bytes moved 608*n*time + 192*n + 512*time + 2600,
 *          least possible 32*n*time + 32*n + 1536
 * made by disc-gen models/test.onnx -o build */
#include "model.h"
#include "runtime/device/device.h"
#include "runtime/device/blas.h"
#include "runtime/controller/step.h"

/* transpose_each: f32[8, 8] = transpose  "/rnn" */
__global__ void transpose_each(float *__restrict__ y, const float *__restrict__ a)
{
    FOR_ROWS (row, 8) {
        const int64_t at = row * 8;
        FOR_LANES (j, 8) y[at + j] = a[row + j * 8];
    }
}

/* add_tanh: f32[n, 8] = add, tanh */
__global__ void add_tanh(float *y, const float *a, const float *b, int64_t n0)
{
    FOR_EACH (i, n0) y[i] = tanhf(a[i] + b[i]);
}

/* reduce_sum: f32[] = reduce_sum  "loss" */
__global__ void reduce_sum(float *__restrict__ y, const float *__restrict__ a, int64_t n0)
{
    FOR_ROWS (row, 1) {
        float s = 0;
        REDUCES(+, s)
        FOR_THREADS (j, n0) s += a[j];
        s = block_sum(s);
        if (FIRST_THREAD) y[row] = s;
    }
}

/* pad_add: f32[time, n, 8] = pad, pad, add  "/rnn" */
__global__ void pad_add(float *__restrict__ y, const float *__restrict__ a, const float *__restrict__ b, int64_t n0, int64_t n1)
{
    FOR_ROWS (row, n0) {
        const int64_t at = row * n1 - n1;
        const int64_t at2 = row * n1;
        FOR_LANES (j, n1) {
            const float v = (row >= 1 ? a[at + j] : 0.f) + (row < 1 ? b[at2 + j] : 0.f);
            y[at2 + j] = v;
        }
    }
}

/* broadcast_each: f32[n, 8] = broadcast  "/rnn" */
__global__ void broadcast_each(float *__restrict__ y, int64_t n0)
{
    FOR_EACH (i, n0) y[i] = 0.f;
}

/* broadcast_each_2: f32[time, n, 8] = broadcast  "loss" */
__global__ void broadcast_each_2(float *__restrict__ y, int64_t n0)
{
    FOR_EACH (i, n0) y[i] = 1.f;
}

/* mul_sub_mul: f32[n, 8] = add, mul, sub, mul  "/rnn" */
__global__ void mul_sub_mul(float *y, const float *a, const float *b, const float *c, int64_t n0)
{
    FOR_EACH (i, n0) {
        const float v = c[i];
        y[i] = (a[i] + b[i]) * (1.f - v * v);
    }
}

/* update: f32[8, 8], f32[8, 8], f32[8, 8] = mul, mul, sub, mul, mul, add, mul, mul, mul, add, sqrt, sqrt, div, add, div, div, mul, sub  "r" */
__global__ void update(float *new_exp_avg, float *new_exp_avg_sq, float *new_weight, const float *exp_avg, const float *gradient,
                       const float *exp_avg_sq, const float *weight, float beta1, float one_minus_beta1, float beta2,
                       float one_minus_beta2, float lr, float weight_decay, float bias_correction1, float bias_correction2,
                       float eps, int64_t n)
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
int train_step(Step *s)
{
    const Dims *const d = (const Dims *)s->dims;
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
    float *const r = weight<float>(s, WEIGHT_R);                                        /* (8, 8) "r" */
    float *const r_exp_avg = state<float>(s, STATE_R_EXP_AVG);                          /* (8, 8) "r.exp_avg" */
    float *const r_exp_avg_sq = state<float>(s, STATE_R_EXP_AVG_SQ);                    /* (8, 8) "r.exp_avg_sq" */
    float *const h = buffer<float>(s, TRAIN_H);                                         /* (n, 8) "input h" */
    float *const x = buffer<float>(s, TRAIN_X);                                         /* (time, n, 8) "input x" */
    float *const rnn_transpose = buffer<float>(s, TRAIN_RNN_TRANSPOSE);                 /* (8, 8) "/rnn" */
    float *const rnn = buffer<float>(s, TRAIN_RNN);                                     /* (n, 8) "/rnn" */
    float *const rnn_scan_1 = buffer<float>(s, TRAIN_RNN_SCAN_1);                       /* (time, n, 8) "/rnn" */
    float *const dot_2 = buffer<float>(s, TRAIN_DOT_2);                                 /* (n, 8) */
    float *const loss = buffer<float>(s, TRAIN_LOSS);                                   /* () "loss" */
    float *const d_rnn_add = buffer<float>(s, TRAIN_D_RNN_ADD);                         /* (time, n, 8) "gradient of /rnn" */
    float *const d_rnn_broadcast = buffer<float>(s, TRAIN_D_RNN_BROADCAST);             /* (n, 8) "gradient of /rnn" */
    float *const d_loss = buffer<float>(s, TRAIN_D_LOSS);                               /* (time, n, 8) "gradient of loss" */
    float *const d_rnn_scan = buffer<float>(s, TRAIN_D_RNN_SCAN);                       /* (n, 8) "gradient of /rnn" */
    float *const d_rnn_scan_1 = buffer<float>(s, TRAIN_D_RNN_SCAN_1);                   /* (time, n, 8) "gradient of /rnn" */
    float *const d_rnn = buffer<float>(s, TRAIN_D_RNN);                                 /* (8, 8) "gradient of /rnn" */

    /* ---- forward ---- */
    unit(s, 0);   LAUNCH(s, transpose_each, rows(8, 8), 32)(rnn_transpose, r);                      /* "/rnn" */
    unit(s, 1);   copy_tensor(s, rnn, h, 32*n);
    for (int64_t t = 0; t < time; t++) { /* "/rnn" */
        float *const x_t = x + t * (8*n); /* (n, 8) */
        float *const rnn_scan_1_t = rnn_scan_1 + t * (8*n); /* (n, 8) */
        dot(s, dot_2, rnn, rnn_transpose, 1, n, 8, 8, 0, 0);
        LAUNCH(s, add_tanh, elements(8*n), 256)(rnn_scan_1_t, dot_2, x_t, 8*n);
        copy_tensor(s, rnn, rnn_scan_1_t, 32*n);
    }

    /* ---- loss ---- */
    unit(s, 2);   LAUNCH(s, reduce_sum, rows(1, 8*n*time), 256)(loss, rnn_scan_1, 8*n*time);        /* "loss" */

    /* ---- commit: nothing above has changed a weight; nothing below is abandoned ---- */
    unit(s, 3);   if (int error = commit(s, loss)) return error;

    /* ---- backward; each weight is updated as soon as its gradient is complete and its last reader is done ---- */
    unit(s, 4);   LAUNCH(s, pad_add, rows(time, 8*n), 64)(d_rnn_add, rnn_scan_1, h, time, 8*n);     /* "/rnn" */
    unit(s, 5);   LAUNCH(s, broadcast_each, elements(8*n), 256)(d_rnn_broadcast, 8*n);              /* "/rnn" */
    unit(s, 6);   LAUNCH(s, broadcast_each_2, elements(8*n*time), 256)(d_loss, 8*n*time);           /* "loss" */
    unit(s, 7);   copy_tensor(s, d_rnn_scan, d_rnn_broadcast, 32*n);
    for (int64_t t = time - 1; t >= 0; t--) { /* "/rnn" */
        float *const d_loss_t = d_loss + t * (8*n); /* (n, 8) */
        float *const rnn_scan_1_t_2 = rnn_scan_1 + t * (8*n); /* (n, 8) */
        float *const d_rnn_scan_1_t = d_rnn_scan_1 + t * (8*n); /* (n, 8) */
        LAUNCH(s, mul_sub_mul, elements(8*n), 256)(d_rnn_scan_1_t, d_rnn_scan, d_loss_t, rnn_scan_1_t_2, 8*n); /* "/rnn" */
        dot(s, d_rnn_scan, d_rnn_scan_1_t, r, 1, n, 8, 8, 0, 0);
    }
    unit(s, 8);   dot(s, d_rnn, d_rnn_scan_1, d_rnn_add, 1, 8, 8, n*time, 1, 0);                    /* "/rnn" */
    save_gradient(s, WEIGHT_R, d_rnn, 256);
    unit(s, 9);   LAUNCH(s, update, elements(64), 256)(r_exp_avg, r_exp_avg_sq, r, r_exp_avg, d_rnn, r_exp_avg_sq, r, beta1,
            one_minus_beta1, beta2, one_minus_beta2, lr, weight_decay, bias_correction1, bias_correction2, eps, 64); /* "r" */
    return s->error;
}
