/* test.onnx -> model.cu
 * loss   mse(y), optimizer adamw, fp32
 * dims   batch 1..64 ~ 8
 * train    13 kernels; bytes moved 1664*batch + 24816,
 *          least possible 368*batch + 16128
 * made by disc-gen models/test.onnx -o build */
#include "model.h"
#include "runtime/device/device.h"
#include "runtime/device/blas.h"
#include "runtime/controller/step.h"

/* add_tanh: f32[batch, 32] = add, tanh  "/up/Add", "/Tanh" */
template <class Index>
__global__ void add_tanh(float *y, const float *a, const float *__restrict__ b, Index n0)
{
    FOR_ROWS (row, n0) {
        const Index at = row * 32;
        FOR_LANES (j, 32) y[at + j] = tanhf(a[at + j] + b[j]);
    }
}

/* row_sub_mul_reduce_sum: f32[batch, 4], f32[] = sub, mul, reduce_sum  "loss" */
template <class Index>
__global__ void row_sub_mul_reduce_sum(float *y0, float *__restrict__ y1, const float *a, const float *b, Index n0)
{
    FOR_ROWS (row, 1) {
        float sum = 0;
        REDUCES(+, sum)
        FOR_THREADS (j, n0) {
            const float v = a[j] - b[j];
            const float v2 = v * v;
            y0[j] = v;
            sum += v2;
        }
        sum = block_sum(sum);
        if (FIRST_THREAD) y1[row] = sum;
    }
}

/* mul_each: f32[batch, 4] = mul  "loss" */
template <class Index>
__global__ void mul_each(float *y, const float *a, Index n0)
{
    FOR_EACH (i, n0) y[i] = 2.f * a[i];
}

/* update: f32[32, 4], f32[32, 4], f32[32, 4] = mul, mul, sub, mul, mul, add, mul, mul, mul, add, sqrt, sqrt, div, add, div, div, mul, sub  "down.weight" */
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

/* mul_sub_mul: f32[batch, 32] = mul, sub, mul  "/Tanh" */
template <class Index>
__global__ void mul_sub_mul(float *y, const float *a, const float *b, Index n0)
{
    FOR_EACH (i, n0) {
        const float v = b[i];
        y[i] = a[i] * (1.f - v * v);
    }
}

/* reduce_sum: f32[32] = reduce_sum  "/up/Add" */
template <class Index>
__global__ void reduce_sum(float *__restrict__ y, const float *__restrict__ a, Index n0)
{
    FOR_ROWS (block, strips(32)) {
        const Index column = block * STRIP, width = strip_width(32, column);
        float s[STRIP_OWN];
        FOR_STRIP (k, width) s[OWN(k)] = 0;
        for (Index r = 0; r < n0; r++) {
            const Index at = column + r * 32;
            FOR_STRIP (k, width) s[OWN(k)] += a[at + k];
        }
        FOR_STRIP (k, width) y[column + k] = s[OWN(k)];
    }
}


/* One step of training.  Returns 0, or the error of the first launch that failed, or STEP_NOT_FINITE where the loss is no number. */
STEP_FUNCTION int train_step(Step *s)
{
    const Dims *const d = dims_of(s);
    const int64_t batch = d->batch;
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
    float *const x = buffer<float>(s, TRAIN_X);                                                     /* (batch, 16) */
    float *const up_matmul = buffer<float>(s, TRAIN_UP_MATMUL);                                     /* (batch, 32) */
    unit(s, 0);   dot(s, up_matmul, x, w->up_weight, 1, batch, 32, 16, 0, 0);                       /* "/up/MatMul" */
    unit(s, 1);   LAUNCH(s, add_tanh, rows(batch, 32), 32)(up_matmul, up_matmul, w->up_bias, batch); /* "/up/Add", "/Tanh", in place */
    float *const down_matmul = buffer<float>(s, TRAIN_DOWN_MATMUL);                                 /* (batch, 4) */
    unit(s, 2);   dot(s, down_matmul, up_matmul, w->down_weight, 1, batch, 4, 32, 0, 0);            /* "/down/MatMul" */

    /* ---- loss ---- */
    float *const target = buffer<float>(s, TRAIN_TARGET);                                           /* (batch, 4) */
    float *const loss = buffer<float>(s, TRAIN_LOSS);                                               /* () */
    unit(s, 3);   LAUNCH(s, row_sub_mul_reduce_sum, rows(1, 8*batch), 32)(down_matmul, loss, down_matmul, target, 4*batch); /* "loss", in place */

    /* ---- commit: nothing above has changed a weight; nothing below is abandoned ---- */
    unit(s, 4);   if (int error = commit(s, loss)) return error;

    /* ---- backward; each weight is updated as soon as its gradient is complete and its last reader is done ---- */
    unit(s, 5);   LAUNCH(s, mul_each, elements(4*batch), 256)(down_matmul, down_matmul, 4*batch);   /* "loss", in place */
    float *const d_down_matmul = buffer<float>(s, TRAIN_D_DOWN_MATMUL);                             /* (32, 4) */
    unit(s, 6);   dot(s, d_down_matmul, up_matmul, down_matmul, 1, 32, 4, batch, 1, 0);             /* "/down/MatMul" */
    save_gradient(s, WEIGHT_DOWN_WEIGHT, d_down_matmul, 512);
    float *const d_down_matmul_dot = buffer<float>(s, TRAIN_D_DOWN_MATMUL_DOT);                     /* (batch, 32) */
    unit(s, 7);   dot(s, d_down_matmul_dot, down_matmul, w->down_weight, 1, batch, 32, 4, 0, 1);    /* "/down/MatMul" */
    unit(s, 8);   LAUNCH(s, update, elements(128), 256)(states->down_weight_exp_avg, states->down_weight_exp_avg_sq, w->down_weight,
            states->down_weight_exp_avg, d_down_matmul, states->down_weight_exp_avg_sq, w->down_weight, beta1,
            one_minus_beta1, beta2, one_minus_beta2, lr, weight_decay, bias_correction1, bias_correction2, eps, 128); /* "down.weight" */
    unit(s, 9);   LAUNCH(s, mul_sub_mul, elements(32*batch), 256)(up_matmul, d_down_matmul_dot, up_matmul, 32*batch); /* "/Tanh", in place */
    float *const d_up_add = buffer<float>(s, TRAIN_D_UP_ADD);                                       /* (32) */
    unit(s, 10);  LAUNCH(s, reduce_sum, rows(1, 64*batch), 64)(d_up_add, up_matmul, batch);         /* "/up/Add" */
    save_gradient(s, WEIGHT_UP_BIAS, d_up_add, 128);
    unit(s, 11);  LAUNCH(s, update, elements(32), 256)(states->up_bias_exp_avg, states->up_bias_exp_avg_sq, w->up_bias,
            states->up_bias_exp_avg, d_up_add, states->up_bias_exp_avg_sq, w->up_bias, beta1, one_minus_beta1, beta2,
            one_minus_beta2, lr, weight_decay, bias_correction1, bias_correction2, eps, 32);        /* "down.weight", "up.bias" */
    float *const d_up_matmul = buffer<float>(s, TRAIN_D_UP_MATMUL);                                 /* (16, 32) */
    unit(s, 12);  dot(s, d_up_matmul, x, up_matmul, 1, 16, 32, batch, 1, 0);                        /* "/up/MatMul" */
    save_gradient(s, WEIGHT_UP_WEIGHT, d_up_matmul, 2048);
    unit(s, 13);  LAUNCH(s, update, elements(512), 256)(states->up_weight_exp_avg, states->up_weight_exp_avg_sq, w->up_weight,
            states->up_weight_exp_avg, d_up_matmul, states->up_weight_exp_avg_sq, w->up_weight, beta1, one_minus_beta1,
            beta2, one_minus_beta2, lr, weight_decay, bias_correction1, bias_correction2, eps, 512); /* "down.weight", "up.weight" */
    return s->error;
}
