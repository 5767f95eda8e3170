/* A model written by hand, as the generator would: y[b] = sum_j w[j] x[b, j] + table[code[b]], mean squared error, SGD with
 * momentum. Dims: batch 1..64 ~ 4, width 3.  Guards on range, on shapes, on the code's range; the loss must be finite. */
#ifndef TINY_H
#define TINY_H
#include <math.h>
#include <stddef.h>
#include <string.h>
#include "../../runtime/controller/controller.h"

enum { TINY_WIDTH = 3, TINY_CODES = 5 };

static void tiny_shape_x(const int64_t *d, int64_t *out)
{
    out[0] = d[0], out[1] = TINY_WIDTH;
}
static void tiny_shape_batch(const int64_t *d, int64_t *out)
{
    out[0] = d[0];
}
static void tiny_shape_scalar(const int64_t *d, int64_t *out)
{
    (void)d, (void)out;
}
static void tiny_bind(const Arrival *a, int64_t *d)
{
    d[0] = a->input[0].dims[0];
}

static bool tiny_batch_range(const int64_t *d, const Arrival *a)
{
    return (void)a, d[0] >= 1 && d[0] <= 64;
}
static bool tiny_code_shape(const int64_t *d, const Arrival *a)
{
    return a->input[1].dims[0] == d[0];
}
static bool tiny_code_in_table(const int64_t *d, const Arrival *a)
{
    return (void)d, a->input[1].lowest >= 0 && a->input[1].highest < TINY_CODES;
}
static bool tiny_finite(const int64_t *d, const Arrival *a)
{
    return (void)d, a->loss_is_finite;
}

enum { TINY_X, TINY_CODE, TINY_TARGET, TINY_Y, TINY_SCRATCH, TINY_BUFFERS };
static void tiny_bytes(const int64_t *d, int64_t *out)
{
    out[TINY_X] = 4 * TINY_WIDTH * d[0];
    out[TINY_CODE] = 8 * d[0];
    out[TINY_TARGET] = out[TINY_Y] = 4 * d[0];
    out[TINY_SCRATCH] = 1000;
}
static void tiny_traffic(const int64_t *d, int64_t *moved, int64_t *least, int64_t *flops)
{
    *moved = 40 * d[0], *least = 28 * d[0], *flops = 8 * d[0];
}

#define TINY_AT(type, buffer) ((type *)(s->arena + s->at[buffer]))

/* Writes y. */
static void tiny_predict(Step *s)
{
    const float *x = TINY_AT(float, TINY_X), *w = s->weights[0], *table = s->weights[1];
    const int64_t *code = TINY_AT(int64_t, TINY_CODE);
    float *y = TINY_AT(float, TINY_Y);
    for (int64_t b = 0; b < s->dims[0]; b++) {
        y[b] = table[code[b]];
        for (int j = 0; j < TINY_WIDTH; j++) y[b] += w[j] * x[b * TINY_WIDTH + j];
    }
}

/* Writes y, returns the sum of squared errors. */
static double tiny_forward(Step *s)
{
    const float *y = TINY_AT(float, TINY_Y), *target = TINY_AT(float, TINY_TARGET);
    double sum = 0;
    tiny_predict(s);
    for (int64_t b = 0; b < s->dims[0]; b++) sum += (double)(y[b] - target[b]) * (y[b] - target[b]);
    return sum;
}

static int tiny_train(Step *s)
{
    const float *x = TINY_AT(float, TINY_X), *target = TINY_AT(float, TINY_TARGET), *y = TINY_AT(float, TINY_Y);
    const int64_t *code = TINY_AT(int64_t, TINY_CODE), n = s->dims[0];
    float gradient[2][TINY_CODES] = {{0}}, *buffers[2] = {s->states[0], s->states[1]}, *weights[2] = {s->weights[0], s->weights[1]};
    s->loss = tiny_forward(s) / (double)n;
    if (!isfinite(s->loss)) return STEP_NOT_FINITE;
    for (int64_t b = 0; b < n; b++) {
        float g = 2 * (y[b] - target[b]) / (float)n;
        for (int j = 0; j < TINY_WIDTH; j++) gradient[0][j] += g * x[b * TINY_WIDTH + j];
        gradient[1][code[b]] += g;
    }
    for (int k = 0; k < 2; k++) {
        int count = k ? TINY_CODES : TINY_WIDTH;
        if (s->gradients && s->gradients[k]) memcpy(s->gradients[k], gradient[k], (size_t)count * 4);
        for (int i = 0; i < count; i++) {
            buffers[k][i] = (float)s->hypers[1] * buffers[k][i] + gradient[k][i];
            weights[k][i] -= (float)s->hypers[0] * buffers[k][i];
        }
    }
    *(float *)s->weights[2] += 1; /* a running statistic */
    return s->error;
}

static int tiny_infer(Step *s)
{
    tiny_predict(s);
    return 0;
}

static const DimInfo tiny_dims[] = {{"batch", 1, 64, 4, true, false}};
static const InputInfo tiny_inputs[] = {
    {"x", F32, 2, tiny_shape_x, "batch, 3", 0, false, false, 0},
    {"code", I64, 1, tiny_shape_batch, "batch", 0, false, false, 0},
    {"target", F32, 1, tiny_shape_batch, "batch", 0, true, false, 0},
};
static const WeightInfo tiny_weights[] = {
    {"w", F32, 1, {TINY_WIDTH}, true, false, "normal(0.5)"},
    {"table", F32, 1, {TINY_CODES}, true, false, "zeros"},
    {"count", F32, 0, {0}, false, true, "ones"},
};
static const StateInfo tiny_states[] = {{"w.momentum", 0}, {"table.momentum", 1}};
static const HyperInfo tiny_hypers[] = {{"lr", 0.05}, {"momentum", 0.9}};
static const Guard tiny_guards[] = {
    {"batch_range", "1 <= batch <= 64", "--dim batch", "plans", ON_ARRIVAL, PLAN_AGAIN, tiny_batch_range},
    {"code_shape", "code.shape[0] == batch", "code", "every kernel", ON_ARRIVAL, SET_ASIDE, tiny_code_shape},
    {"code_in_table", "0 <= code < 5", "/Gather", "/Gather", ON_CONTENT, SET_ASIDE, tiny_code_in_table},
    {"finite_loss", "loss is finite", "mse", "every update", AT_COMMIT, SET_ASIDE, tiny_finite},
};
static const Life tiny_lives[] = {
    {0, 3, "x", "x", F32}, {0, 3, "code", "code", F32}, {0, 2, "target", "target", F32}, {1, 3, "y", "/Add", F32}, {4, 4, "scratch", "loss", F32}};
static const int tiny_input_buffers[] = {TINY_X, TINY_CODE, TINY_TARGET};
/* The three scalars of an evaluation lie in buffers of their own in a generated program; here three lives at the end. */
enum { TINY_LOSS = TINY_SCRATCH, TINY_CORRECT = TINY_BUFFERS, TINY_COUNTED, TINY_EVALUATE_BUFFERS };
static void tiny_evaluate_bytes(const int64_t *d, int64_t *out)
{
    tiny_bytes(d, out);
    out[TINY_LOSS] = out[TINY_CORRECT] = out[TINY_COUNTED] = 4;
}
static int tiny_evaluate_step(Step *s)
{
    double loss = tiny_forward(s) / (double)s->dims[0];
    *TINY_AT(float, TINY_LOSS) = (float)loss;
    *TINY_AT(float, TINY_CORRECT) = 1;
    *TINY_AT(float, TINY_COUNTED) = (float)s->dims[0];
    s->loss = loss;
    return isfinite(loss) ? 0 : STEP_NOT_FINITE;
}
static const Life tiny_evaluate_lives[] = {{0, 3, "x", "x", F32},        {0, 3, "code", "code", F32}, {0, 2, "target", "target", F32},
                                           {1, 3, "y", "/Add", F32},     {4, 4, "loss", "loss", F32}, {4, 4, "correct", "mse", F32},
                                           {4, 4, "counted", "mse", F32}};
static const OutputInfo tiny_evaluate_outputs[] = {{"loss", F32, 0, tiny_shape_scalar, ""},
                                                   {"correct", F32, 0, tiny_shape_scalar, ""},
                                                   {"counted", F32, 0, tiny_shape_scalar, ""}};
static const int tiny_evaluate_output_buffers[] = {TINY_LOSS, TINY_CORRECT, TINY_COUNTED};
static const OutputInfo tiny_infer_outputs[] = {{"y", F32, 1, tiny_shape_batch, "batch"}};
static const int tiny_infer_output_buffers[] = {TINY_Y};
static const Program tiny_train_program = {.name = "train",
                                           .n_buffers = TINY_BUFFERS,
                                           .lives = tiny_lives,
                                           .bytes = tiny_bytes,
                                           .n_inputs = 3,
                                           .input_buffer = tiny_input_buffers,
                                           .n_launches = 5,
                                           .traffic = tiny_traffic,
                                           .run = tiny_train};
static const Program tiny_evaluate_program = {.name = "evaluate",
                                              .n_buffers = TINY_EVALUATE_BUFFERS,
                                              .lives = tiny_evaluate_lives,
                                              .bytes = tiny_evaluate_bytes,
                                              .n_inputs = 3,
                                              .input_buffer = tiny_input_buffers,
                                              .n_outputs = 3,
                                              .outputs = tiny_evaluate_outputs,
                                              .output_buffer = tiny_evaluate_output_buffers,
                                              .n_launches = 5,
                                              .traffic = tiny_traffic,
                                              .run = tiny_evaluate_step};
static const int tiny_infer_buffers[] = {TINY_X, TINY_CODE, -1};
static const Program tiny_infer_program = {.name = "infer",
                                           .n_buffers = TINY_BUFFERS,
                                           .lives = tiny_lives,
                                           .bytes = tiny_bytes,
                                           .n_inputs = 3,
                                           .input_buffer = tiny_infer_buffers,
                                           .n_outputs = 1,
                                           .outputs = tiny_infer_outputs,
                                           .output_buffer = tiny_infer_output_buffers,
                                           .n_launches = 5,
                                           .traffic = tiny_traffic,
                                           .run = tiny_infer};

static const Model tiny = {
    .name = "tiny",
    .source = "tiny.onnx",
    .loss = "mse(y)",
    .optimizer = "momentum",
    .precision = "fp32",
    .classifies = true,
    .n_dims = 1,
    .dims = tiny_dims,
    .batch_dim = 0,
    .n_inputs = 3,
    .inputs = tiny_inputs,
    .n_weights = 3,
    .weights = tiny_weights,
    .n_states = 2,
    .states = tiny_states,
    .n_hypers = 2,
    .hypers = tiny_hypers,
    .bind = tiny_bind,
    .n_guards = 4,
    .guards = tiny_guards,
    .train = &tiny_train_program,
    .evaluate = &tiny_evaluate_program,
    .infer = &tiny_infer_program,
    .settings = "tiny.onnx -o tiny",
};
#endif
