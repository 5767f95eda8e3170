/* Loss scaling, where products are of f16: small gradients would vanish there.  The gradient is taken of the loss times a number that the
 * trainer sets for each step; the optimizer divides by it, in its own kernels (optimizer.c).  No weight changes where a gradient overflowed:
 *
 *     %90 = mul loss, loss_scale              outputs[0] while gradient runs
 *     …
 *     %140 = max |%120|, |%130|, …            of every weight's gradient; NaN wins
 *     finite %140                             or the step ends here; assigns come after
 *
 * Needs: pass_scale_loss before gradient, on a graph whose first output is the loss; the caller gives the loss back its place. */
#include "passes/passes.h"
#include <string.h>

bool loss_is_scaled(const Options *options)
{
    return options->precision && strcmp(options->precision, "fp16") == 0;
}

Value *pass_scale_loss(Graph *g, const Options *options)
{
    Value *loss = g->outputs.at[0];
    if (!loss_is_scaled(options)) return loss;
    Value *scale = graph_input(g, "loss_scale", DTYPE_f32, 0, NULL, FROM_HYPER);
    g->role = "loss";
    g->outputs.at[0] = b_mul(g, loss, b_cast(g, scale, loss->dtype));
    g->role = "";
    return loss;
}

static Value *largest_of(Graph *g, Value *v)
{
    int64_t *axes = NEW_ARRAY(g->arena, int64_t, v->rank + 1);
    for (int i = 0; i < v->rank; i++) axes[i] = i;
    Value *size = b_cast(g, b_unary(g, OP_abs, v), DTYPE_f32);
    return v->rank ? b_reduce(g, OP_reduce_max, size, axes, v->rank) : size;
}

void loss_scale_check(Graph *g, Value *const *gradients, int n)
{
    Value *largest = NULL;
    for (int i = 0; i < n; i++) {
        if (!gradients[i]) continue;
        Value *own = largest_of(g, gradients[i]);
        largest = largest ? b_binary(g, OP_max, largest, own) : own;
    }
    if (largest) b_finite(g, largest);
}
