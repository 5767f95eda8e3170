/* The interpreter's index, reduce, sort, scatter and late operations. */
#include "test/support/interpret_private.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- index ---- */
/* Where element i of the result comes from in the operand; -1: from nowhere. */
static int64_t origin(Run *run, const Op *op, const Array *a, const Array *out, int64_t i)
{
    int64_t to[MOST_RANK], from[MOST_RANK];
    unravel(i, out->rank, out->dims, to);
    const int64_t *axes = op->kind == OP_broadcast || op->kind == OP_transpose ? op_ints(op, ATTR_axes, NULL) : NULL;
    switch (op->kind) {
    case OP_reshape: return i;
    case OP_broadcast:
        for (int k = 0; k < a->rank; k++) from[k] = a->dims[k] == 1 ? 0 : to[axes[k]];
        break;
    case OP_transpose:
        for (int k = 0; k < a->rank; k++) from[axes[k]] = to[k];
        break;
    case OP_slice:
        for (int k = 0; k < a->rank; k++)
            from[k] = run_size(run, op_exprs(op, ATTR_start, NULL)[k]) + op_ints(op, ATTR_step, NULL)[k] * to[k];
        break;
    default: bug("%s", op_info(op->kind)->name);
    }
    for (int k = 0; k < a->rank; k++) check(from[k] >= 0 && from[k] < a->dims[k]);
    return ravel(a->rank, a->dims, from);
}

static void run_pad(Run *run, const Op *op, const Array *in, Array *out)
{
    int64_t at[MOST_RANK];
    for (int64_t i = 0; i < out->n; i++) out->at[i] = in[1].at[0];
    for (int64_t i = 0; i < in[0].n; i++) {
        unravel(i, in[0].rank, in[0].dims, at);
        bool inside = true;
        for (int k = 0; k < out->rank; k++) {
            at[k] = run_size(run, op_exprs(op, ATTR_start, NULL)[k]) + op_ints(op, ATTR_step, NULL)[k] * at[k];
            inside &= at[k] >= 0 && at[k] < out->dims[k];
        }
        if (inside) out->at[ravel(out->rank, out->dims, at)] = in[0].at[i];
    }
}

static void run_concat(const Op *op, const Array *in, Array *out)
{
    int axis = (int)op_int(op, ATTR_axis);
    Along all = along(*out, axis);
    int64_t start = 0;
    for (int p = 0; p < op->n_in; p++) {
        Along l = along(in[p], axis);
        for (int64_t o = 0; o < l.outer; o++)
            memcpy(out->at + (o * all.size + start) * all.inner, in[p].at + o * l.size * l.inner,
                   sizeof(double) * (size_t)(l.size * l.inner));
        start += l.size;
    }
    check(start == all.size);
}

static void run_gather(const Op *op, const Array *in, Array *out)
{
    Along l = along(in[0], (int)op_int(op, ATTR_axis));
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t k = 0; k < in[1].n; k++) {
            int64_t index = (int64_t)in[1].at[k];
            check(index >= 0 && index < l.size);
            memcpy(out->at + (o * in[1].n + k) * l.inner, in[0].at + (o * l.size + index) * l.inner,
                   sizeof(double) * (size_t)l.inner);
        }
}

void run_index(Run *run, const Op *op, const Array *in, Array *out)
{
    if (op->kind == OP_pad)
        run_pad(run, op, in, out);
    else if (op->kind == OP_concat)
        run_concat(op, in, out);
    else if (op->kind == OP_gather)
        run_gather(op, in, out);
    else
        for (int64_t i = 0; i < out->n; i++) out->at[i] = in->at[origin(run, op, in, out, i)];
}

/* ---- reduce, cumulative, sort ---- */
static double combine(OpKind kind, double a, double b)
{
    switch (kind) {
    case OP_reduce_sum:
    case OP_cum_sum: return a + b;
    case OP_reduce_prod:
    case OP_cum_prod: return a * b;
    case OP_reduce_max: return isnan(a) || isnan(b) ? NAN : a > b ? a : b;
    case OP_reduce_min: return isnan(a) || isnan(b) ? NAN : a < b ? a : b;
    default: bug("%s", op_info(kind)->name);
    }
}

static double neutral(OpKind kind, Dtype d)
{
    if (kind == OP_reduce_prod || kind == OP_cum_prod) return 1;
    if (d == DTYPE_bool) return kind == OP_reduce_min;
    return kind == OP_reduce_max ? -INFINITY : kind == OP_reduce_min ? INFINITY : 0;
}

static void run_fold(const Op *op, const Array *in, Array *out)
{
    int n;
    const int64_t *axes = op_ints(op, ATTR_axes, &n);
    for (int64_t i = 0; i < out->n; i++) out->at[i] = neutral(op->kind, out->dtype);
    for (int64_t i = 0; i < in->n; i++) {
        int64_t from[MOST_RANK], to[MOST_RANK];
        int rank = 0;
        unravel(i, in->rank, in->dims, from);
        for (int k = 0; k < in->rank; k++) {
            bool reduced = false;
            for (int a = 0; a < n; a++) reduced |= axes[a] == k;
            if (!reduced) to[rank++] = from[k];
        }
        double *sum = &out->at[ravel(rank, out->dims, to)];
        *sum = combine(op->kind, *sum, in->at[i]);
    }
}

static void run_arg(const Op *op, const Array *in, Array *out)
{
    Along l = along(*in, (int)op_int(op, ATTR_axis));
    bool last = op_int(op, ATTR_last);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            int64_t best = 0;
            for (int64_t k = 1; k < l.size; k++) {
                double a = in->at[(o * l.size + k) * l.inner + i], b = in->at[(o * l.size + best) * l.inner + i];
                bool better = op->kind == OP_arg_max ? a > b : a < b;
                if (better || (last && a == b)) best = k;
            }
            out->at[o * l.inner + i] = (double)best;
        }
}

static void run_cumulative(const Op *op, const Array *in, Array *out)
{
    Along l = along(*in, (int)op_int(op, ATTR_axis));
    bool exclusive = op_int(op, ATTR_exclusive), reverse = op_int(op, ATTR_reverse);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            double sum = neutral(op->kind, out->dtype);
            for (int64_t k = 0; k < l.size; k++) {
                int64_t at = (o * l.size + (reverse ? l.size - 1 - k : k)) * l.inner + i;
                double next = combine(op->kind, sum, in->at[at]);
                out->at[at] = exclusive ? sum : next;
                sum = next;
            }
        }
}

static void run_top_k(const Op *op, const Array *in, Array *out)
{
    int axis = (int)op_int(op, ATTR_axis);
    bool largest = op_int(op, ATTR_largest);
    Along l = along(*in, axis), k = along(out[0], axis);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t i = 0; i < l.inner; i++) {
            bool taken[l.size + 1];
            memset(taken, 0, sizeof taken);
            for (int64_t n = 0; n < k.size; n++) {
                int64_t best = -1;
                for (int64_t j = 0; j < l.size; j++) {
                    double a = in->at[(o * l.size + j) * l.inner + i];
                    double b = best < 0 ? 0 : in->at[(o * l.size + best) * l.inner + i];
                    if (!taken[j] && (best < 0 || (largest ? a > b : a < b))) best = j;
                }
                taken[best] = true;
                out[0].at[(o * k.size + n) * k.inner + i] = in->at[(o * l.size + best) * l.inner + i];
                out[1].at[(o * k.size + n) * k.inner + i] = (double)best;
            }
        }
}

void run_reduce(Run *run, const Op *op, const Array *in, Array *out)
{
    (void)run;
    if (op->kind == OP_arg_max || op->kind == OP_arg_min)
        run_arg(op, in, out);
    else if (op->kind == OP_top_k)
        run_top_k(op, in, out);
    else if (op_info(op->kind)->class == CUMULATIVE)
        run_cumulative(op, in, out);
    else
        run_fold(op, in, out);
}

/* ---- scatter, late ---- */
static double scattered(const char *mode, double old, double update)
{
    if (strcmp(mode, "set") == 0) return update;
    if (strcmp(mode, "add") == 0) return old + update;
    if (strcmp(mode, "mul") == 0) return old * update;
    return combine(strcmp(mode, "max") == 0 ? OP_reduce_max : OP_reduce_min, old, update);
}

void run_scatter(Run *run, const Op *op, const Array *in, Array *out)
{
    (void)run;
    const Array *index = &in[1], *updates = &in[2];
    Along l = along(in[0], (int)op_int(op, ATTR_axis));
    memcpy(out->at, in[0].at, sizeof(double) * (size_t)out->n);
    for (int64_t o = 0; o < l.outer; o++)
        for (int64_t k = 0; k < index->n; k++) {
            int64_t at = (int64_t)index->at[k];
            if (at < 0 || at >= l.size) continue;
            for (int64_t i = 0; i < l.inner; i++) {
                double *to = &out->at[(o * l.size + at) * l.inner + i];
                *to = scattered(op_text(op, ATTR_mode), *to, updates->at[(o * index->n + k) * l.inner + i]);
            }
        }
}

static void set_late(Run *run, const Expr *dim, int64_t value)
{
    if (!expr_is_symbol(dim)) bug("a late dim that is no symbol");
    run->dims[symbol_index(dim)] = value;
}

static void run_nonzero(Run *run, const Op *op, const Array *in, Array *out)
{
    int64_t count = 0, at[MOST_RANK];
    for (int64_t i = 0; i < in->n; i++) count += in->at[i] != 0;
    set_late(run, op->out[0]->shape[1], count);
    for (int i = 0; i < 2; i++) out[i] = run_new(run, op->out[i]);
    out[1].at[0] = (double)count;
    int64_t n = 0;
    for (int64_t i = 0; i < in->n; i++) {
        if (in->at[i] == 0) continue;
        unravel(i, in->rank, in->dims, at);
        for (int k = 0; k < in->rank; k++) out[0].at[k * count + n] = (double)at[k];
        n++;
    }
}

/* Unsorted: in order of first appearance. */
static void run_unique(Run *run, const Op *op, const Array *in, Array *out)
{
    int64_t n = in->n, found = 0, first[n + 1], group[n + 1], order[n + 1];
    for (int64_t i = 0; i < n; i++) {
        int64_t k = 0;
        while (k < found && in->at[first[k]] != in->at[i]) k++;
        if (k == found) first[found++] = i;
        group[i] = k;
    }
    for (int64_t k = 0; k < found; k++) { /* order[k]: where group k stands in the result */
        order[k] = k;
        if (!op_int(op, ATTR_sorted)) continue;
        order[k] = 0;
        for (int64_t j = 0; j < found; j++) order[k] += in->at[first[j]] < in->at[first[k]];
    }
    set_late(run, op->out[0]->shape[0], found);
    for (int i = 0; i < 5; i++) out[i] = run_new(run, op->out[i]);
    for (int64_t k = 0; k < found; k++) {
        out[0].at[order[k]] = in->at[first[k]];
        out[1].at[order[k]] = (double)first[k];
    }
    for (int64_t i = 0; i < n; i++) {
        out[2].at[i] = (double)order[group[i]];
        out[3].at[order[group[i]]]++;
    }
    out[4].at[0] = (double)found;
}

void run_late(Run *run, const Op *op, const Array *in, Array *out)
{
    if (op->kind == OP_nonzero)
        run_nonzero(run, op, in, out);
    else
        run_unique(run, op, in, out);
}
