/* The interpreter's contractions, convolutions and pools. */
#include "ir/build.h"
#include "test/support/interpret_private.h"
#include <math.h>

void run_dot(Run *run, const Op *op, const Array *in, Array *out)
{
    (void)run;
    const Array *a = &in[0], *b = &in[1];
    bool trans_a = op_int(op, ATTR_trans_a), trans_b = op_int(op, ATTR_trans_b);
    int r = out->rank;
    int64_t m = out->dims[r - 2], n = out->dims[r - 1], inner = a->dims[trans_a ? r - 2 : r - 1], batch = 1;
    check(inner == b->dims[trans_b ? r - 1 : r - 2]);
    for (int i = 0; i < r - 2; i++) batch *= out->dims[i];
    for (int64_t z = 0; z < batch; z++)
        for (int64_t i = 0; i < m; i++)
            for (int64_t j = 0; j < n; j++) {
                double sum = op->kind == OP_dot_add ? in[2].at[(z * m + i) * n + j] : 0;
                for (int64_t k = 0; k < inner; k++)
                    sum += a->at[z * m * inner + (trans_a ? k * m + i : i * inner + k)] *
                           b->at[z * n * inner + (trans_b ? j * inner + k : k * n + j)];
                out->at[(z * m + i) * n + j] = sum;
            }
}

/* ---- windows ---- */
/* Calls visit for each place of a window over x (n, c, d..): y is the place of the window (n, o, ..), k that in the kernel.
 * Pads are left out. */
typedef struct {
    int spatial;
    int64_t low[6], stride[6], dilation[6], kernel[6];
} Slide;

static Slide slide_of(Run *run, const Op *op)
{
    Window win = op_window(op);
    Slide s = {.spatial = win.rank};
    for (int i = 0; i < win.rank; i++) {
        s.low[i] = run_size(run, win.low[i]);
        s.stride[i] = win.stride[i];
        s.dilation[i] = win.dilation[i];
        s.kernel[i] = win.window[i];
    }
    return s;
}

static int64_t volume(int n, const int64_t *dims)
{
    int64_t v = 1;
    for (int i = 0; i < n; i++) v *= dims[i];
    return v;
}

/* The flat place in x's space (its dims d..) of kernel place k under window place y; -1 in a pad. */
static int64_t under(const Slide *s, const int64_t *y_dims, const int64_t *x_dims, int64_t y, int64_t k)
{
    int64_t at[6], in[6];
    unravel(y, s->spatial, y_dims, at);
    unravel(k, s->spatial, s->kernel, in);
    for (int i = 0; i < s->spatial; i++) {
        at[i] = at[i] * s->stride[i] + in[i] * s->dilation[i] - s->low[i];
        if (at[i] < 0 || at[i] >= x_dims[i]) return -1;
    }
    return ravel(s->spatial, x_dims, at);
}

/* All three forms walk the one sum  y[n,o,i] ~ w[o,c,k] * x[n,g*C+c,under(i,k)]. */
void run_conv(Run *run, const Op *op, const Array *in, Array *out)
{
    const Array *y = op->kind == OP_conv ? out : &in[0];
    const Array *w = op->kind == OP_conv_grad_weight ? out : &in[1];
    const Array *x = op->kind == OP_conv ? &in[0] : op->kind == OP_conv_grad_input ? out : &in[1];
    Slide s = slide_of(run, op);
    int64_t groups = op_int(op, ATTR_groups), outputs = y->dims[1], per_group = w->dims[1];
    int64_t y_space = volume(s.spatial, y->dims + 2), x_space = volume(s.spatial, x->dims + 2),
            k_space = volume(s.spatial, s.kernel);
    check(x->dims[1] == per_group * groups && w->dims[0] == outputs && x->dims[0] == y->dims[0]);
    for (int64_t n = 0; n < y->dims[0]; n++)
        for (int64_t o = 0; o < outputs; o++)
            for (int64_t c = 0; c < per_group; c++)
                for (int64_t i = 0; i < y_space; i++)
                    for (int64_t k = 0; k < k_space; k++) {
                        int64_t place = under(&s, y->dims + 2, x->dims + 2, i, k);
                        if (place < 0) continue;
                        int64_t channel = o / (outputs / groups) * per_group + c;
                        double *at_y = &y->at[(n * outputs + o) * y_space + i];
                        double *at_w = &w->at[(o * per_group + c) * k_space + k];
                        double *at_x = &x->at[(n * x->dims[1] + channel) * x_space + place];
                        if (op->kind == OP_conv)
                            *at_y += *at_w * *at_x;
                        else if (op->kind == OP_conv_grad_input)
                            *at_x += *at_y * *at_w;
                        else
                            *at_w += *at_y * *at_x;
                    }
}

void run_pool(Run *run, const Op *op, const Array *in, Array *out)
{
    bool back = op->kind == OP_pool_max_grad || op->kind == OP_pool_sum_grad;
    const Array *x = back ? out : in, *y = back ? in : out;
    Slide s = slide_of(run, op);
    int64_t y_space = volume(s.spatial, y->dims + 2), x_space = volume(s.spatial, x->dims + 2),
            k_space = volume(s.spatial, s.kernel);
    for (int64_t nc = 0; nc < x->dims[0] * x->dims[1]; nc++)
        for (int64_t i = 0; i < y_space; i++) {
            double *at_y = &y->at[nc * y_space + i], most = -INFINITY;
            int64_t winner = -1;
            if (op->kind == OP_pool_max_grad) {
                int64_t at = (int64_t)in[1].at[nc * y_space + i];
                if (at >= 0 && at < x_space) x->at[nc * x_space + at] += *at_y;
                continue;
            }
            for (int64_t k = 0; k < k_space; k++) {
                int64_t place = under(&s, y->dims + 2, x->dims + 2, i, k);
                if (place < 0) continue;
                double *at_x = &x->at[nc * x_space + place];
                if (op->kind == OP_pool_sum)
                    *at_y += *at_x;
                else if (op->kind == OP_pool_sum_grad)
                    *at_x += *at_y;
                else if (winner < 0 || *at_x > most || (isnan(*at_x) && !isnan(most)))
                    winner = place, most = *at_x;
            }
            if (op->kind != OP_pool_max) continue;
            *at_y = most;
            out[1].at[nc * y_space + i] = (double)winner;
        }
}
