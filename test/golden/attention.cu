/* test.onnx -> model.cu
 * loss       mse(y), optimizer adamw, fp32
 * dims       batch 1..64 ~ 8, seq 1..512 ~ 128
 * train      22 kernels, bytes moved 3480*batch*seq + 42260, least possible 1072*batch*seq + 25344
 * made by    disc-gen models/test.onnx -o build */
#include "model.h"
#include "runtime/device/device.h"
#include "runtime/device/blas.h"
#include "runtime/device/attention.h"
#include "runtime/controller/step.h"

/* Row kernel of "/ln/LayerNormalization"
 * x (batch, seq, 16), gain (16), bias (16) -> mean_out (batch, seq), inverse_deviation_out (batch, seq), y (batch, seq, 16)
 * 12 operations in one: 688*batch*seq bytes less to move */
template <class Index>
__global__ ORDERED void norm(float *__restrict__ mean_out, float *__restrict__ inverse_deviation_out, float *y, const float *x,
                             const float *__restrict__ gain, const float *__restrict__ bias, Index rows)
{
    FOR_ROWS (row, rows) {
        const Index at = row * 16;
        float sum = 0;
        REDUCES(+, sum)
        FOR_THREADS (j, 16) sum += x[at + j];
        sum = block_sum(sum);
        const float mean = sum / 16.f;
        float squares = 0;
        REDUCES(+, squares)
        FOR_THREADS (j, 16) {
            const float centred = x[at + j] - mean;
            squares += centred * centred;
        }
        squares = block_sum(squares);
        const float inverse_deviation = 1 / sqrtf(squares / 16.f + 1e-05f);
        FOR_LANES (j, 16) y[at + j] = (x[at + j] - mean) * inverse_deviation * gain[j] + bias[j];
        if (FIRST_THREAD) {
            mean_out[row] = mean;
            inverse_deviation_out[row] = inverse_deviation;
        }
    }
}

/* Attention kernel, scores in blocks on chip, of "/attn/Transpose_1", "/attn/Split", "/attn/Transpose_2", "/attn/Attention"
 * qkv (batch*seq, 48) -> y (batch, 2, seq, 8), top (batch, 2, seq), scale (batch, 2, seq)
 * 8 operations in one: 116*batch*seq*seq + 1184*batch*seq bytes less to move */
__global__ void attention(float *__restrict__ y, float *__restrict__ top, float *__restrict__ scale,
                          const float *__restrict__ qkv, int64_t queries, int64_t heads)
{
    SHARED AttentionForward<float, 8, 8, false> tile;
    const int64_t blocks = tiles(queries, tile.OWN);
    FOR_ROWS (part, heads * blocks) {
        const int64_t head = part / blocks, first = part % blocks * tile.OWN;
        const int64_t last = minimum<int64_t>(first + tile.OWN, queries) - 1;
        const int64_t inner = head % 2;
        const int64_t outer = head / 2;
        tile.begin(qkv + first * 48 + inner * 8 + outer * (queries * 48), 48, last - first + 1);
        const int64_t qkv_at = inner * 8 + outer * (queries * 48) + 16;
        const int64_t qkv_at2 = inner * 8 + outer * (queries * 48) + 32;
        for (int emptied = 0; emptied < 2 && !(emptied && tile.found(last - first + 1)); emptied++) {
            for (int64_t from = 0; from < queries; from += tile.OTHER) {
                const int64_t to = minimum<int64_t>(from + tile.OTHER, queries) - 1;
                if (!(from <= last) != (emptied != 0)) continue;
                tile.multiply(qkv + qkv_at + from * 48, 48, to - from + 1);
                FOR_OTHER (key, from, to) {
                    FOR_OWN (query, first, last) {
                        const float score = tile.s[key - from][query - first];
                        tile.s[key - from][query - first] = key <= query ? score * 0.35355338f : -3.4028235e+38f;
                    }
                }
                tile.add(qkv + qkv_at2 + from * 48, 48, to - from + 1);
            }
        }
        tile.finish(y + head * (queries * 8) + first * 8, 8, top + head * queries + first, scale + head * queries + first, last
                - first + 1, queries);
    }
}

/* Copying kernel of "/attn/Transpose_3"
 * attended (batch, 2, seq, 8) -> y (batch, seq, 2, 8) */
template <class Index>
__global__ void transpose_each(float *__restrict__ y, const float *__restrict__ attended, Index rows, Index length)
{
    FOR_ROWS (row, rows) {
        const Index outer = row / length;
        const Index inner = row % length;
        const Index attended_outer = outer * (length * 16) + inner * 8;
        const Index y_row = row * 16;
        for (Index i = 0; i < 2; i++) {
            const Index attended_at = attended_outer + i * (length * 8);
            const Index y_at = y_row + i * 8;
            FOR_LANES (j, 8) y[y_at + j] = attended[attended_at + j];
        }
    }
}

/* Row kernel, first of two stages, of "/Add", "loss"
 * x (batch, seq, 16), projected (batch, seq, 16), target (batch, seq, 16) -> y (batch, seq, 16), part
 * 4 operations in one: 320*batch*seq bytes less to move */
template <class Index>
__global__ ORDERED void difference_and_squares_of_all_parts(float *y, const float *x, const float *projected,
                                                            const float *target, float *__restrict__ part, Index parts, Index n)
{
    FOR_ROWS (block, parts) {
        const Index p = block % parts;
        const Index first = part_first(n, p, parts), last = part_first(n, p + 1, parts);
        float squares = 0;
        REDUCES(+, squares)
        FOR_THREADS (j, last - first) {
            const float difference = x[first + j] + projected[first + j] - target[first + j];
            y[first + j] = difference;
            squares += difference * difference;
        }
        squares = block_sum(squares);
        if (FIRST_THREAD) part[block] = squares;
    }
}

/* Row kernel, second of two stages, of "/Add", "loss"
 * part -> y () */
template <class Index>
__global__ ORDERED void sum_of_parts(float *__restrict__ y, const float *__restrict__ part, Index parts)
{
    FOR_ROWS (row, 1) {
        float squares = 0;
        REDUCES(+, squares)
        FOR_THREADS (p, parts) squares += part[row * parts + p];
        squares = block_sum(squares);
        if (FIRST_THREAD) y[row] = squares;
    }
}

/* Loop kernel of "loss"
 * x (batch, seq, 16) -> y (batch, seq, 16) */
template <class Index>
__global__ void mul_each(float *y, const float *x, Index n)
{
    FOR_EACH_FOURS (four, n) {
        const Four<float> x_4(x + four);
        FourResults<float> y_4(y + four);
        FOR_FOUR_EACH (i, four, n) y_4[i] = 2.f * x_4[i];
    }
}

/* Update kernel of "attn.out.weight"; also of "attn.qkv.weight"; "ln.bias"; "ln.weight"
 * gradient (16, 16) -> weight (16, 16), state
 * 22 operations in one: 38168 bytes less to move */
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

/* Row kernel of "/attn/Transpose_3", "/attn/Attention"
 * gradient (batch, seq, 2, 8), attended (batch, 2, seq, 8) -> y (batch, 2, seq)
 * 6 operations in one: 928*batch*seq bytes less to move */
template <class Index>
__global__ ORDERED void sum_of_rows(float *__restrict__ y, const float *__restrict__ gradient,
                                    const float *__restrict__ attended, Index rows, Index length)
{
    FOR_ROWS (row, rows) {
        const Index outer = row / length;
        const Index outer2 = outer / 2;
        const Index inner = row % length;
        const Index inner2 = outer % 2;
        const Index gradient_at = outer2 * (length * 16) + inner * 16 + inner2 * 8;
        const Index attended_at = row * 8;
        double sum = 0;
        REDUCES(+, sum)
        FOR_THREADS (j, 8) sum += (double)gradient[gradient_at + j] * (double)attended[attended_at + j];
        sum = block_sum(sum);
        const float sum2 = (float)sum;
        if (FIRST_THREAD) y[row] = sum2;
    }
}

/* Attention kernel, scores in blocks on chip, of "/attn/Split", "/attn/Transpose_2", "/attn/Transpose_3", "/attn/Attention"
 * delta (batch, 2, seq), dy (batch*seq, 16), qkv (batch*seq, 48), top (batch, 2, seq), scale (batch, 2, seq) ->
 *    dq (batch, 2, seq, 8)
 * 9 operations in one: 200*batch*seq*seq + 1472*batch*seq bytes less to move */
__global__ void attention_gradient_q(float *__restrict__ dq, const float *__restrict__ delta, const float *__restrict__ dy,
                                     const float *__restrict__ qkv, const float *__restrict__ top,
                                     const float *__restrict__ scale, float *__restrict__ balanced, int64_t queries,
                                     int64_t heads)
{
    SHARED AttentionGradient<float, 8, 8, false> tile;
    const int64_t blocks = tiles(queries, tile.OWN);
    FOR_ROWS (part, heads * blocks) {
        const int64_t head = part / blocks, first = part % blocks * tile.OWN;
        const int64_t last = minimum<int64_t>(first + tile.OWN, queries) - 1;
        const int64_t inner = head % 2;
        const int64_t outer = head / 2;
        tile.begin(qkv + first * 48 + inner * 8 + outer * (queries * 48), 48, dy + first * 16 + inner * 8
                + outer * (queries * 16), 16, last - first + 1);
        const int64_t qkv_at = inner * 8 + outer * (queries * 48) + 16;
        const int64_t qkv_at2 = inner * 8 + outer * (queries * 48) + 32;
        const int64_t at = head * queries;
        for (int emptied = 0; emptied < 2 && !(emptied && above_masked(top + head * queries + first, last - first + 1));
                emptied++) {
            for (int64_t from = 0; from < queries; from += tile.OTHER) {
                const int64_t to = minimum<int64_t>(from + tile.OTHER, queries) - 1;
                if (!(from <= last) != (emptied != 0)) continue;
                tile.multiply(qkv + qkv_at + from * 48, 48, qkv + qkv_at2 + from * 48, 48, to - from + 1);
                FOR_OTHER (key, from, to) {
                    FOR_OWN (query, first, last) {
                        const float score = tile.s[key - from][query - first];
                        const float p = exponential((key <= query ? score * 0.35355338f : -3.4028235e+38f) - top[at + query])
                                * scale[at + query];
                        const float slope = p * (tile.g[key - from][query - first] - delta[at + query]);
                        tile.s[key - from][query - first] = slope;
                        tile.g[key - from][query - first] = (key <= query ? slope : 0.f) * 0.35355338f;
                    }
                }
                tile.add(qkv + qkv_at + from * 48, 48, qkv + qkv_at2 + from * 48, 48, to - from + 1);
            }
        }
        tile.balance(balanced + head * queries + first, delta + head * queries + first, last - first + 1);
        tile.finish(dq + head * (queries * 8) + first * 8, NULL, last - first + 1);
    }
}

/* Attention kernel, scores in blocks on chip, of "/attn/Split", "/attn/Transpose_2", "/attn/Transpose_3", "/attn/Attention"
 * qkv (batch*seq, 48), top (batch, 2, seq), dy (batch*seq, 16), scale (batch, 2, seq) -> dk (batch, 2, seq, 8),
 *    dv (batch, 2, seq, 8)
 * 9 operations in one: 200*batch*seq*seq + 1472*batch*seq bytes less to move */
__global__ void attention_gradient_kv(float *__restrict__ dk, float *__restrict__ dv, const float *__restrict__ qkv,
                                      const float *__restrict__ top, const float *__restrict__ dy,
                                      const float *__restrict__ scale, const float *__restrict__ balanced, int64_t queries,
                                      int64_t heads)
{
    SHARED AttentionGradient<float, 8, 8, true> tile;
    const int64_t blocks = tiles(queries, tile.OWN);
    FOR_ROWS (part, heads * blocks) {
        const int64_t head = part / blocks, first = part % blocks * tile.OWN;
        const int64_t last = minimum<int64_t>(first + tile.OWN, queries) - 1;
        const int64_t inner = head % 2;
        const int64_t outer = head / 2;
        tile.begin(qkv + first * 48 + inner * 8 + outer * (queries * 48) + 16, 48, qkv + first * 48 + inner * 8
                + outer * (queries * 48) + 32, 48, last - first + 1);
        const int64_t at = head * queries;
        const int64_t qkv_at = inner * 8 + outer * (queries * 48);
        const int64_t dy_at = inner * 8 + outer * (queries * 16);
        for (int64_t from = 0; from < queries; from += tile.OTHER) {
            const int64_t to = minimum<int64_t>(from + tile.OTHER, queries) - 1;
            if (!(first <= to) && above_masked(top + at + from, to - from + 1)) continue;
            tile.multiply(qkv + qkv_at + from * 48, 48, dy + dy_at + from * 16, 16, to - from + 1);
            FOR_OTHER (query, from, to) {
                const float top_query = top[at + query];
                const float scale_query = scale[at + query];
                const float delta = balanced[at + query];
                FOR_OWN (key, first, last) {
                    const float score = tile.s[query - from][key - first];
                    const float p = exponential((key <= query ? score * 0.35355338f : -3.4028235e+38f) - top_query) * scale_query;
                    const float slope = p * (tile.g[query - from][key - first] - delta);
                    tile.s[query - from][key - first] = p;
                    tile.g[query - from][key - first] = (key <= query ? slope : 0.f) * 0.35355338f;
                }
            }
            tile.add(qkv + qkv_at + from * 48, 48, dy + dy_at + from * 16, 16, to - from + 1);
        }
        tile.finish(dk + head * (queries * 8) + first * 8, dv + head * (queries * 8) + first * 8, last - first + 1);
    }
}

/* Loop kernel of "/attn/Transpose_2", "/attn/Transpose_1", "/attn/Transpose", "/attn/Split"
 * dv (batch, 2, seq, 8), dk (batch, 2, seq, 8), dq (batch, 2, seq, 8) -> y (batch, seq, 48)
 * 8 operations in one: 1920*batch*seq bytes less to move */
template <class Index>
__global__ void transpose_pad_add(float *__restrict__ y, const float *__restrict__ dv, const float *__restrict__ dk,
                                  const float *__restrict__ dq, Index rows, Index length)
{
    FOR_ROWS (row, rows) {
        const Index inner = row % 3;
        const Index outer = row / 3;
        const Index outer2 = outer / length;
        const Index inner2 = outer % length;
        const Index outer3 = (inner2 + inner - 2) / length;
        const Index dv_outer2 = outer2 * (length * 16) + outer3 * (length * 8) + inner2 * 8 + inner * 8 - 16;
        const Index outer4 = (inner2 + inner - 1) / length;
        const Index dk_outer2 = outer2 * (length * 16) + outer4 * (length * 8) + inner2 * 8 + inner * 8 - 8;
        const Index outer5 = (inner2 + inner) / length;
        const Index dq_outer2 = outer2 * (length * 16) + outer5 * (length * 8) + inner2 * 8 + inner * 8;
        const Index y_row = row * 16;
        for (Index i = 0; i < 2; i++) {
            const Index dv_at = dv_outer2 + i * (length * 8);
            const Index dk_at = dk_outer2 + i * (length * 8);
            const Index dq_at = dq_outer2 + i * (length * 8);
            const Index y_at = y_row + i * 8;
            FOR_LANES (j, 8) {
                const float added = (inner >= 2 ? dv[dv_at + j] : 0.f) + (inner >= 1 && inner < 2 ? dk[dk_at + j] : 0.f);
                y[y_at + j] = added + (inner < 1 ? dq[dq_at + j] : 0.f);
            }
        }
    }
}

/* Column kernel, first of two stages, of "/ln/LayerNormalization"
 * gradient (batch, seq, 16), x (batch, seq, 16), mean (batch, seq), inverse_deviation (batch, seq) -> part, part2
 * 5 operations in one: 448*batch*seq bytes less to move */
template <class Index>
__global__ void norm_gradient_sums_parts(const float *__restrict__ gradient, const float *__restrict__ x,
                                         const float *__restrict__ mean, const float *__restrict__ inverse_deviation,
                                         float *__restrict__ part, float *__restrict__ part2, Index rows, Index columns,
                                         Index parts)
{
    FOR_ROWS (block, parts * strips(columns)) {
        const Index line = block / strips(columns);
        const Index column = block % strips(columns) * STRIP, width = strip_width(columns, column);
        const Index p = line % parts;
        const Index first = part_first(rows, p, parts), last = part_first(rows, p + 1, parts);
        float sum[STRIP_OWN];
        float sum2[STRIP_OWN];
        FOR_STRIP (k, width) sum[OWN(k)] = 0;
        FOR_STRIP (k, width) sum2[OWN(k)] = 0;
        for (Index r = first; r < last; r++) {
            const Index at = column + r * columns;
            const float mean_r = mean[r];
            const float inverse_deviation_r = inverse_deviation[r];
            FOR_STRIP (k, width) {
                const float gradient_k = gradient[at + k];
                sum[OWN(k)] += gradient_k;
                sum2[OWN(k)] += gradient_k * ((x[at + k] - mean_r) * inverse_deviation_r);
            }
        }
        FOR_STRIP (k, width) part[line * columns + column + k] = sum[OWN(k)];
        FOR_STRIP (k, width) part2[line * columns + column + k] = sum2[OWN(k)];
    }
}

/* Column kernel, second of two stages, of "/ln/LayerNormalization"
 * part, part2 -> sum_out (16), y (16) */
template <class Index>
__global__ void sums_of_parts(float *__restrict__ sum_out, float *__restrict__ y, const float *__restrict__ part,
                              const float *__restrict__ part2, Index columns, Index parts)
{
    FOR_ROWS (block, strips(columns)) {
        const Index column = block * STRIP, width = strip_width(columns, column);
        float sum[STRIP_OWN];
        float sum2[STRIP_OWN];
        FOR_STRIP (k, width) sum[OWN(k)] = 0;
        FOR_STRIP (k, width) sum2[OWN(k)] = 0;
        for (Index p = 0; p < parts; p++) {
            const Index at = p * columns + column;
            FOR_STRIP (k, width) sum[OWN(k)] += part[at + k];
            FOR_STRIP (k, width) sum2[OWN(k)] += part2[at + k];
        }
        FOR_STRIP (k, width) {
            sum_out[column + k] = sum[OWN(k)];
            y[column + k] = sum2[OWN(k)];
        }
    }
}

/* One step of training.
 * Returns 0, or the error of the first launch that failed, or STEP_NOT_FINITE where the loss is no number.
 * unit(s, k) begins what the controller's tables count as the kth. */
STEP_FUNCTION int train_step(Step *s)
{
    const Dims &d = dims_of(s);
    const int64_t batch = d.batch, seq = d.seq;
    const int64_t seq_32 = ceil_div(seq, 32);
    const int64_t parts = min_int(64, ceil_div(batch*seq, 128));
    const int64_t parts_2 = min_int(64, ceil_div(batch*seq, 16));
    const Hypers hypers = hypers_of(s);
    const Weights *const w = weights_of(s);
    const States *const states = states_of(s);

    /* ---- forward ---- */
    /* -- ln -- */
    float *const x = buffer<float>(s, TRAIN_X);                                                     /* (batch, seq, 16) */
    float *const ln_mean = buffer<float>(s, TRAIN_LN_MEAN);                                         /* (batch, seq) */
    float *const ln_inverse_deviation = buffer<float>(s, TRAIN_LN_INVERSE_DEVIATION);               /* (batch, seq) */
    float *const ln = buffer<float>(s, TRAIN_LN);                                                   /* (batch, seq, 16) */
    unit(s, 0);   LAUNCH(s, norm, rows(batch*seq, 48), 32)(ln_mean, ln_inverse_deviation, ln, x, w->ln_weight,
            w->ln_bias, batch*seq);                                                                 /* "/ln/LayerNormalization" */

    /* -- attn -- */
    float *const attn_qkv = buffer<float>(s, TRAIN_ATTN_QKV);                                       /* (batch*seq, 48) */
    unit(s, 1);   dot(s, attn_qkv, ln, w->attn_qkv_weight, 1, batch*seq, 48, 16, PLAIN, PLAIN);     /* "/attn/qkv/MatMul" */
    float *const attn_attention = buffer<float>(s, TRAIN_ATTN_ATTENTION);                           /* (batch, 2, seq, 8) */
    float *const attn_attention_top = buffer<float>(s, TRAIN_ATTN_ATTENTION_TOP);                   /* (batch, 2, seq) */
    float *const attn_attention_scale = buffer<float>(s, TRAIN_ATTN_ATTENTION_SCALE);               /* (batch, 2, seq) */
    unit(s, 2);   LAUNCH_PLAIN(s, attention, rows(2*batch*seq_32, 16*seq), 128)(attn_attention, attn_attention_top,
            attn_attention_scale, attn_qkv, seq, 2*batch);                                          /* "/attn/Attention" */
    float *const attn_transpose_3 = buffer<float>(s, TRAIN_ATTN_TRANSPOSE_3);                       /* (batch, seq, 2, 8) */
    unit(s, 3);   LAUNCH(s, transpose_each, rows(batch*seq, 16), 32)(attn_transpose_3, attn_attention, batch*seq, seq); /* "/attn/Transpose_3" */
    float *const attn_out = buffer<float>(s, TRAIN_ATTN_OUT);                                       /* (batch*seq, 16) */
    unit(s, 4);   dot(s, attn_out, attn_transpose_3, w->attn_out_weight, 1, batch*seq, 16, 16, PLAIN, PLAIN); /* "/attn/out/MatMul" */

    /* ---- loss ---- */
    float *const target = buffer<float>(s, TRAIN_TARGET);                                           /* (batch, seq, 16) */
    float *const loss_sub = buffer<float>(s, TRAIN_LOSS_SUB);                                       /* (batch, seq, 16) */
    float *const loss = buffer<float>(s, TRAIN_LOSS);                                               /* () */
    float *const scratch = buffer<float>(s, TRAIN_SCRATCH);
    unit(s, 5);   LAUNCH(s, difference_and_squares_of_all_parts, rows(parts, 16*batch*seq), 256)(loss_sub, x, attn_out,
            target, scratch, parts, 16*batch*seq);                                                  /* "/Add", "loss" */
    LAUNCH(s, sum_of_parts, rows(1, parts), 64)(loss, scratch, parts);                              /* "/Add", "loss" */

    /* ---- commit: nothing above has changed a weight; nothing below is abandoned ---- */
    unit(s, 6);   if (int error = commit(s, loss)) return error;

    /* ---- backward; each weight is updated as soon as its gradient is complete and its last reader is done ---- */
    unit(s, 7);   LAUNCH(s, mul_each, fours(16*batch*seq), 256)(loss_sub, loss_sub, 16*batch*seq);  /* "loss", in place */

    /* -- attn -- */
    float *const d_attn_out = buffer<float>(s, TRAIN_D_ATTN_OUT);                                   /* (16, 16) */
    unit(s, 8);   dot(s, d_attn_out, attn_transpose_3, loss_sub, 1, 16, 16, batch*seq, TRANSPOSED, PLAIN); /* "/attn/out/MatMul" */
    save_gradient(s, WEIGHT_ATTN_OUT_WEIGHT, d_attn_out, 1024);
    float *const d_attn_out_dot = buffer<float>(s, TRAIN_D_ATTN_OUT_DOT);                           /* (batch*seq, 16) */
    unit(s, 9);   dot(s, d_attn_out_dot, loss_sub, w->attn_out_weight, 1, batch*seq, 16, 16, PLAIN, TRANSPOSED); /* "/attn/out/MatMul" */
    unit(s, 10);  LAUNCH(s, update, fours(256), 256)(w->attn_out_weight, states->attn_out_weight,
            s->kept + WEIGHT_ATTN_OUT_WEIGHT, d_attn_out, hypers, 256);                             /* "attn.out.weight" */
    float *const d_attn_attention_sum = buffer<float>(s, TRAIN_D_ATTN_ATTENTION_SUM);               /* (batch, 2, seq) */
    unit(s, 11);  LAUNCH(s, sum_of_rows, rows(2*batch*seq, 16), 32)(d_attn_attention_sum, d_attn_out_dot,
            attn_attention, 2*batch*seq, seq);                                                      /* "/attn/Attention" */
    float *const d_attn_attention = buffer<float>(s, TRAIN_D_ATTN_ATTENTION);                       /* (batch, 2, seq, 8) */
    float *const scratch_2 = buffer<float>(s, TRAIN_SCRATCH_2);
    unit(s, 12);  LAUNCH_PLAIN(s, attention_gradient_q, rows(2*batch*seq_32, 16*seq), 128)(d_attn_attention,
            d_attn_attention_sum, d_attn_out_dot, attn_qkv, attn_attention_top, attn_attention_scale, scratch_2, seq,
            2*batch);                                                                               /* "/attn/Attention" */
    float *const d_attn_attention_dk = buffer<float>(s, TRAIN_D_ATTN_ATTENTION_DK);                 /* (batch, 2, seq, 8) */
    float *const d_attn_attention_dv = buffer<float>(s, TRAIN_D_ATTN_ATTENTION_DV);                 /* (batch, 2, seq, 8) */
    LAUNCH_PLAIN(s, attention_gradient_kv, rows(2*batch*seq_32, 16*seq), 128)(d_attn_attention_dk, d_attn_attention_dv,
            attn_qkv, attn_attention_top, d_attn_out_dot, attn_attention_scale, scratch_2, seq, 2*batch); /* "/attn/Attention" */
    float *const d_attn_split = buffer<float>(s, TRAIN_D_ATTN_SPLIT);                               /* (batch, seq, 48) */
    unit(s, 13);  LAUNCH(s, transpose_pad_add, rows(3*batch*seq, 16), 32)(d_attn_split, d_attn_attention_dv,
            d_attn_attention_dk, d_attn_attention, 3*batch*seq, seq);                               /* "/attn/Reshape", "/attn/Split" */
    float *const d_attn_qkv_dot = buffer<float>(s, TRAIN_D_ATTN_QKV_DOT);                           /* (16, 48) */
    unit(s, 14);  dot(s, d_attn_qkv_dot, ln, d_attn_split, 1, 16, 48, batch*seq, TRANSPOSED, PLAIN); /* "/attn/qkv/MatMul" */
    save_gradient(s, WEIGHT_ATTN_QKV_WEIGHT, d_attn_qkv_dot, 3072);
    float *const d_attn_qkv_dot_2 = buffer<float>(s, TRAIN_D_ATTN_QKV_DOT_2);                       /* (batch*seq, 16) */
    unit(s, 15);  dot(s, d_attn_qkv_dot_2, d_attn_split, w->attn_qkv_weight, 1, batch*seq, 16, 48, PLAIN, TRANSPOSED); /* "/attn/qkv/MatMul" */
    unit(s, 16);  LAUNCH(s, update, fours(768), 256)(w->attn_qkv_weight, states->attn_qkv_weight,
            s->kept + WEIGHT_ATTN_QKV_WEIGHT, d_attn_qkv_dot, hypers, 768);                         /* "attn.qkv.weight" */

    /* -- ln -- */
    float *const scratch_3 = buffer<float>(s, TRAIN_SCRATCH_3);
    unit(s, 17);  LAUNCH(s, norm_gradient_sums_parts, rows(parts_2, 64*batch*seq), 64)(d_attn_qkv_dot_2, x, ln_mean,
            ln_inverse_deviation, scratch_3, scratch_3 + 16*parts_2, batch*seq, 16, parts_2);       /* "/ln/LayerNormalization" */
    float *const d_ln_sum = buffer<float>(s, TRAIN_D_LN_SUM);                                       /* (16) */
    float *const d_ln = buffer<float>(s, TRAIN_D_LN);                                               /* (16) */
    LAUNCH(s, sums_of_parts, rows(1, 64*parts_2), 64)(d_ln_sum, d_ln, scratch_3, scratch_3 + 16*parts_2, 16, parts_2); /* "/ln/LayerNormalization" */
    save_gradient(s, WEIGHT_LN_BIAS, d_ln_sum, 64);
    save_gradient(s, WEIGHT_LN_WEIGHT, d_ln, 64);
    unit(s, 18);  LAUNCH(s, update, fours(16), 256)(w->ln_bias, states->ln_bias, s->kept + WEIGHT_LN_BIAS, d_ln_sum,
            hypers, 16);                                                                            /* "ln.bias" */
    unit(s, 19);  LAUNCH(s, update, fours(16), 256)(w->ln_weight, states->ln_weight, s->kept + WEIGHT_LN_WEIGHT, d_ln,
            hypers, 16);                                                                            /* "ln.weight" */
    return s->error;
}
