/* RNN, GRU, LSTM as scans over time.
 *
 * What the input gives to all gates of all steps is one dot before the scan; the body holds the recurrent dot and the cell.
 * Samples shorter than the longest keep their state at steps beyond their end, and give 0 there; run from the last step to the
 * first that is also what a reversed direction means, since a state that is kept is still the initial one where the sample begins.
 */
#include "onnx/formulas.h"
#include <string.h>

enum { MOST_GATES = 4, MOST_OPERANDS = 12 };

typedef struct Activation {
    const char *name;
    double alpha, beta;
} Activation;

typedef struct Recurrent {
    Import *im;
    const OnnxNode *node;
    int gates;
    bool has_cell, linear_before_reset, input_forget;
    double clip;
    Expr *time, *batch, *hidden;
    Value *x;                       /* (time, batch, input) */
    Value *w, *r, *bias, *peephole; /* of all directions; the last two NULL where absent */
    Value *valid;                   /* bool (time, batch, 1); NULL: all steps count */
    Activation activations[3];      /* of the direction at work */
} Recurrent;

/* One step, inside the body. */
typedef struct Cell {
    Graph *g;
    Value *z;           /* (batch, gates * hidden): what the input gives */
    Value *h, *c;       /* (batch, hidden) */
    Value *constant[4]; /* parameters behind: recurrent weights, then what the cell needs beside */
    Value *next_h, *next_c;
} Cell;

/* ---- activations ---- */
static const struct {
    const char *name;
    bool has_alpha, has_beta;
    double alpha, beta;
} activation_rows[] = {
    {"Sigmoid", false, false, 0, 0},  {"Tanh", false, false, 0, 0},          {"Relu", false, false, 0, 0},
    {"Affine", true, true, 1, 0},     {"LeakyRelu", true, false, 0.01, 0},   {"ThresholdedRelu", true, false, 1, 0},
    {"ScaledTanh", true, true, 1, 1}, {"HardSigmoid", true, true, 0.2, 0.5}, {"Elu", true, false, 1, 0},
    {"Softsign", false, false, 0, 0}, {"Softplus", false, false, 0, 0},
};
enum { ACTIVATIONS = sizeof activation_rows / sizeof *activation_rows };

static bool same_word(const char *a, const char *b)
{
    while (*a && *b && (*a | 32) == (*b | 32)) a++, b++;
    return *a == *b;
}

/* Number i of the operator's activations.  Parameters are consumed in order by those that have one; a list as long as that of the
 * activations has one for each. */
static Activation activation_at(const Recurrent *rec, int i, const char *const *defaults, int n_defaults)
{
    int n, n_alpha, n_beta, alphas = 0, betas = 0;
    const OnnxNode *node = rec->node;
    const char *const *names = attr_strings(node, "activations", &n);
    const double *alpha = attr_floats(node, "activation_alpha", &n_alpha), *beta = attr_floats(node, "activation_beta", &n_beta);
    if (names && i >= n) import_error(rec->im, node, "activations names %d functions; wanted %d or more", n, i + 1);
    Activation a = {0};
    for (int k = 0; k <= i; k++) {
        const char *name = names ? names[k] : defaults[k % n_defaults];
        int row = 0;
        while (row < ACTIVATIONS && !same_word(activation_rows[row].name, name)) row++;
        if (row == ACTIVATIONS)
            import_error(rec->im, node, "activation \"%s\" is not known; wanted one of ONNX's, such as Tanh", name);
        int at_alpha = n_alpha == n ? k : alphas, at_beta = n_beta == n ? k : betas;
        a = (Activation){activation_rows[row].name, activation_rows[row].alpha, activation_rows[row].beta};
        if (activation_rows[row].has_alpha && at_alpha < n_alpha) a.alpha = alpha[at_alpha];
        if (activation_rows[row].has_beta && at_beta < n_beta) a.beta = beta[at_beta];
        alphas += activation_rows[row].has_alpha;
        betas += activation_rows[row].has_beta;
    }
    return a;
}

static Value *activate(const Recurrent *rec, Graph *g, int which, Value *x)
{
    const Activation *a = &rec->activations[which];
    Value *zero = b_like(g, x, 0);
    if (rec->clip > 0) x = clamped(g, x, -rec->clip, rec->clip);
    if (strcmp(a->name, "Sigmoid") == 0) return b_unary(g, OP_sigmoid, x);
    if (strcmp(a->name, "Tanh") == 0) return b_unary(g, OP_tanh, x);
    if (strcmp(a->name, "Relu") == 0) return b_unary(g, OP_relu, x);
    if (strcmp(a->name, "Affine") == 0) return shifted(g, scaled(g, x, a->alpha), a->beta);
    if (strcmp(a->name, "LeakyRelu") == 0) return b_select(g, less(g, x, zero), scaled(g, x, a->alpha), x);
    if (strcmp(a->name, "ThresholdedRelu") == 0) return b_select(g, less(g, b_like(g, x, a->alpha), x), x, zero);
    if (strcmp(a->name, "ScaledTanh") == 0) return scaled(g, b_unary(g, OP_tanh, scaled(g, x, a->beta)), a->alpha);
    if (strcmp(a->name, "HardSigmoid") == 0) return clamped(g, shifted(g, scaled(g, x, a->alpha), a->beta), 0, 1);
    if (strcmp(a->name, "Softsign") == 0) return b_div(g, x, shifted(g, b_unary(g, OP_abs, x), 1));
    if (strcmp(a->name, "Softplus") == 0) { /* max(x, 0) + log(1 + exp(-|x|)) */
        Value *tail = b_unary(g, OP_log1p, b_unary(g, OP_exp, negated(g, b_unary(g, OP_abs, x))));
        return b_add(g, b_unary(g, OP_relu, x), tail);
    }
    check(strcmp(a->name, "Elu") == 0);
    Value *below = b_select(g, less(g, x, zero), x, zero);
    return b_select(g, less(g, x, zero), scaled(g, b_unary(g, OP_expm1, below), a->alpha), x);
}

/* ---- cells ---- */
/* Gate k of values that stand side by side, (batch, gates * hidden). */
static Value *gate(const Recurrent *rec, Graph *g, Value *all, int k)
{
    return b_slice_axis(g, all, all->rank - 1, expr_mul(rec->im->symbols, rec->hidden, number(rec->im, k)), rec->hidden);
}

static void rnn_cell(const Recurrent *rec, Cell *cell)
{
    Graph *g = cell->g;
    cell->next_h = activate(rec, g, 0, b_add(g, cell->z, b_dot(g, cell->h, cell->constant[0], false, true)));
}

/* Gates: input, output, forget, cell; constant: R, peepholes of input, output, forget. */
static void lstm_cell(const Recurrent *rec, Cell *cell)
{
    Graph *g = cell->g;
    Value *all = b_add(g, cell->z, b_dot(g, cell->h, cell->constant[0], false, true)), *peephole = cell->constant[1];
    Value *i = gate(rec, g, all, 0), *o = gate(rec, g, all, 1), *f = gate(rec, g, all, 2), *fresh = gate(rec, g, all, 3);
    if (peephole) {
        i = b_add(g, i, b_mul(g, gate(rec, g, peephole, 0), cell->c));
        f = b_add(g, f, b_mul(g, gate(rec, g, peephole, 2), cell->c));
    }
    i = activate(rec, g, 0, i);
    f = rec->input_forget ? b_sub(g, b_like(g, i, 1), i) : activate(rec, g, 0, f);
    cell->next_c = b_add(g, b_mul(g, f, cell->c), b_mul(g, i, activate(rec, g, 1, fresh)));
    if (peephole) o = b_add(g, o, b_mul(g, gate(rec, g, peephole, 1), cell->next_c));
    cell->next_h = b_mul(g, activate(rec, g, 0, o), activate(rec, g, 2, cell->next_c));
}

/* Gates: update, reset, hidden; constant: R whole and the hidden gate's recurrent bias, or R of the first two and R of the third.
 */
static void gru_cell(const Recurrent *rec, Cell *cell)
{
    Graph *g = cell->g;
    Value *recurrent = b_dot(g, cell->h, cell->constant[0], false, true), *fresh;
    Value *z = activate(rec, g, 0, b_add(g, gate(rec, g, cell->z, 0), gate(rec, g, recurrent, 0)));
    Value *r = activate(rec, g, 0, b_add(g, gate(rec, g, cell->z, 1), gate(rec, g, recurrent, 1)));
    if (rec->linear_before_reset) {
        fresh = gate(rec, g, recurrent, 2);
        if (cell->constant[1]) fresh = b_add(g, fresh, cell->constant[1]);
        fresh = b_mul(g, r, fresh);
    } else {
        fresh = b_dot(g, b_mul(g, r, cell->h), cell->constant[1], false, true);
    }
    fresh = activate(rec, g, 1, b_add(g, gate(rec, g, cell->z, 2), fresh));
    Value *keep = b_mul(g, z, cell->h), *take = b_mul(g, b_sub(g, b_like(g, z, 1), z), fresh);
    cell->next_h = b_add(g, take, keep);
}

/* ---- one direction ---- */
/* Part d of a value whose first axis is the directions. */
static Value *of_direction(Graph *g, Value *v, int d)
{
    return b_squeeze(g, b_slice_axis(g, v, 0, expr_int(g->symbols, d), expr_int(g->symbols, 1)), 0);
}

/* Gates first to first + n - 1 of a weight or bias, whose first axis is gates * hidden. */
static Value *gates_of(const Recurrent *rec, Value *v, int first, int n)
{
    Symbols *s = rec->im->symbols;
    return b_slice_axis(rec->im->graph, v, 0, expr_mul(s, rec->hidden, number(rec->im, first)),
                        expr_mul(s, rec->hidden, number(rec->im, n)));
}

/* What a direction's body needs beside carries and slices; and the bias that goes into the projection. */
static int constants_of(const Recurrent *rec, int d, Value **constant, Value **bias)
{
    Graph *g = rec->im->graph;
    Value *r = of_direction(g, rec->r, d), *both_biases = rec->bias ? of_direction(g, rec->bias, d) : NULL, *recurrent = NULL;
    bool is_gru = rec->gates == 3;
    int n = 0;
    *bias = NULL;
    if (both_biases) {
        *bias = gates_of(rec, both_biases, 0, rec->gates);
        recurrent = gates_of(rec, both_biases, rec->gates, rec->gates);
    }
    if (is_gru && !rec->linear_before_reset) {
        constant[n++] = gates_of(rec, r, 0, 2);
        constant[n++] = gates_of(rec, r, 2, 1);
    } else {
        constant[n++] = r;
    }
    if (is_gru && rec->linear_before_reset && recurrent) {
        constant[n++] = gates_of(rec, recurrent, 2, 1);
        Value *none = b_full(g, recurrent->dtype, 0, 1, &rec->hidden);
        recurrent = b_concat(g, (Value *[]){gates_of(rec, recurrent, 0, 2), none}, 2, 0);
    }
    if (recurrent) *bias = b_add(g, *bias, recurrent);
    if (rec->peephole) constant[n++] = of_direction(g, rec->peephole, d);
    return n;
}

static Value *parameter_of(Graph *body, const char *name, const Value *like, bool slice)
{
    return graph_input(body, name, like->dtype, like->rank - slice, like->shape + slice, FROM_PARAMETER);
}

/* The states after the step: kept as they were where the sample has ended. */
static void step_outputs(Graph *g, Cell *cell, Value *valid, bool has_cell, bool stacks)
{
    Value *y = cell->next_h;
    if (valid) {
        y = b_select(g, valid, y, b_like(g, y, 0));
        cell->next_h = b_select(g, valid, cell->next_h, cell->h);
        if (has_cell) cell->next_c = b_select(g, valid, cell->next_c, cell->c);
    }
    vec_push(g->arena, &g->outputs, cell->next_h);
    if (has_cell) vec_push(g->arena, &g->outputs, cell->next_c);
    if (stacks) vec_push(g->arena, &g->outputs, y);
}

/* Results: Y (time, batch, hidden), Y_h and Y_c (batch, hidden). */
static void run_direction(Recurrent *rec, int d, bool reverse, Value *h0, Value *c0, Value **results)
{
    Import *im = rec->im;
    Graph *g = im->graph;
    Value *operands[MOST_OPERANDS], *bias, *constant[4], *inner[MOST_OPERANDS];
    int n = 0, n_constants = constants_of(rec, d, constant, &bias), carries = 1 + rec->has_cell, slices = 1 + (rec->valid != NULL);
    Value *z = b_matmul(g, rec->x, b_swap_last(g, of_direction(g, rec->w, d)));
    if (bias) z = b_add(g, z, bias);
    operands[n++] = h0;
    if (rec->has_cell) operands[n++] = c0;
    operands[n++] = z;
    if (rec->valid) operands[n++] = rec->valid;
    for (int i = 0; i < n_constants; i++) operands[n++] = constant[i];

    Graph *body = graph_new(im->arena, im->symbols, rec->has_cell ? "lstm" : rec->gates == 3 ? "gru" : "rnn");
    body->source = g->source;
    static const char *const names[] = {"recurrent", "constant_1", "constant_2", "constant_3"};
    for (int i = 0; i < n; i++) {
        const char *name = i == 0                 ? "h"
                           : i < carries          ? "c"
                           : i == carries         ? "projected"
                           : i < carries + slices ? "valid"
                                                  : names[i - carries - slices];
        inner[i] = parameter_of(body, name, operands[i], i >= carries && i < carries + slices);
    }
    Cell cell = {.g = body, .h = inner[0], .c = rec->has_cell ? inner[1] : NULL, .z = inner[carries]};
    for (int i = 0; i < n_constants; i++) cell.constant[i] = inner[carries + slices + i];
    if (rec->has_cell)
        lstm_cell(rec, &cell);
    else if (rec->gates == 3)
        gru_cell(rec, &cell);
    else
        rnn_cell(rec, &cell);
    bool stacks = wants_output(rec->node, 0);
    step_outputs(body, &cell, rec->valid ? inner[carries + 1] : NULL, rec->has_cell, stacks);
    Op *op = b_scan(g, body, operands, n, carries, slices, reverse, rec->time);
    results[0] = stacks ? op->out[carries] : NULL;
    results[1] = op->out[0];
    results[2] = rec->has_cell ? op->out[1] : NULL;
}

/* ---- the operators ---- */
static Value *swapped_first(Graph *g, Value *v)
{
    int64_t axes[MOST_AXES] = {1, 0};
    for (int i = 2; i < v->rank; i++) axes[i] = i;
    return b_transpose(g, v, axes);
}

static void want_weight(const Recurrent *rec, const Value *v, int directions, Expr *rows, Expr *columns, const char *what)
{
    Import *im = rec->im;
    int rank = columns ? 3 : 2;
    want_rank(im, rec->node, v, rank, rank, what);
    want_same_type(im, rec->node, rec->x, v);
    must_agree(im, rec->node, v->shape[0], number(im, directions), arena_text(im->arena, "directions of the node and of %s", what));
    must_agree(im, rec->node, v->shape[1], rows, arena_text(im->arena, "gates times hidden size and axis 1 of %s", what));
    if (columns)
        must_agree(im, rec->node, v->shape[2], columns, arena_text(im->arena, "the sizes wanted and found on axis 2 of %s", what));
}

/* bool (time, batch, 1): steps before a sample's end. */
static Value *valid_steps(Recurrent *rec)
{
    Graph *g = rec->im->graph;
    Value *lengths = optional_input(rec->im, rec->node, 4);
    if (!lengths) return NULL;
    want_rank(rec->im, rec->node, lengths, 1, 1, "sequence_lens");
    must_agree(rec->im, rec->node, lengths->shape[0], rec->batch, "the batch of X and the size of sequence_lens");
    Value *ends = b_reshape(g, b_cast(g, lengths, DTYPE_i64), 3, (Expr *[]){number(rec->im, 1), rec->batch, number(rec->im, 1)});
    return less(g, positions(g, DTYPE_i64, rec->time, 0, 3), ends);
}

static Recurrent read_node(Import *im, const OnnxNode *node, int gates, int directions, bool batch_first)
{
    Graph *g = im->graph;
    Recurrent rec = {.im = im, .node = node, .gates = gates, .has_cell = gates == 4, .clip = attr_float(node, "clip", 0)};
    rec.x = input(im, node, 0);
    want_rank(im, node, rec.x, 3, 3, "X");
    if (batch_first) rec.x = swapped_first(g, rec.x);
    rec.time = rec.x->shape[0];
    rec.batch = rec.x->shape[1];
    rec.w = input(im, node, 1);
    rec.r = input(im, node, 2);
    want_rank(im, node, rec.r, 3, 3, "R");
    rec.hidden = rec.r->shape[2];
    int64_t hidden = attr_int(node, "hidden_size", -1);
    if (hidden >= 0) must_agree(im, node, rec.hidden, number(im, hidden), "the last axis of R and hidden_size");
    Expr *rows = expr_mul(im->symbols, rec.hidden, number(im, gates));
    want_weight(&rec, rec.w, directions, rows, rec.x->shape[2], "W");
    want_weight(&rec, rec.r, directions, rows, rec.hidden, "R");
    rec.bias = optional_input(im, node, 3);
    if (rec.bias) want_weight(&rec, rec.bias, directions, expr_mul(im->symbols, rows, number(im, 2)), NULL, "B");
    rec.peephole = rec.has_cell ? optional_input(im, node, 7) : NULL;
    if (rec.peephole) want_weight(&rec, rec.peephole, directions, expr_mul(im->symbols, rec.hidden, number(im, 3)), NULL, "P");
    rec.valid = valid_steps(&rec);
    rec.linear_before_reset = attr_int(node, "linear_before_reset", 0);
    rec.input_forget = attr_int(node, "input_forget", 0);
    return rec;
}

/* (directions, batch, hidden) from input i, or zeros. */
static Value *initial_state(Recurrent *rec, int i, int directions, bool batch_first)
{
    Import *im = rec->im;
    Expr *shape[] = {number(im, directions), rec->batch, rec->hidden};
    Value *v = optional_input(im, rec->node, i);
    if (!v) return b_full(im->graph, rec->x->dtype, 0, 3, shape);
    want_rank(im, rec->node, v, 3, 3, "an initial state");
    want_same_type(im, rec->node, rec->x, v);
    if (batch_first) v = swapped_first(im->graph, v);
    for (int k = 0; k < 3; k++) must_agree(im, rec->node, v->shape[k], shape[k], "the sizes of an initial state and those wanted");
    return v;
}

static void output_states(Recurrent *rec, int i, Value *const *of, int directions, bool batch_first)
{
    Graph *g = rec->im->graph;
    Value *parts[2];
    if (!wants_output(rec->node, i)) return;
    int axis = i == 0 ? 1 : 0;
    for (int d = 0; d < directions; d++) parts[d] = b_expand_dims(g, of[d], axis);
    Value *v = b_concat(g, parts, directions, axis);
    if (batch_first && i == 0)
        v = b_transpose(g, v, (int64_t[]){2, 0, 1, 3}); /* (time, directions, batch, hidden) */
    else if (batch_first)
        v = swapped_first(g, v);
    output(rec->im, rec->node, i, v);
}

static void recurrent(Import *im, const OnnxNode *node, int gates, const char *const *defaults, int n_activations)
{
    const char *direction = attr_string(node, "direction", "forward");
    bool backwards = strcmp(direction, "reverse") == 0, bidirectional = strcmp(direction, "bidirectional") == 0;
    if (!backwards && !bidirectional && strcmp(direction, "forward") != 0)
        import_error(im, node, "direction is \"%s\"; wanted forward, reverse or bidirectional", direction);
    int directions = bidirectional ? 2 : 1;
    bool batch_first = attr_int(node, "layout", 0);
    Recurrent rec = read_node(im, node, gates, directions, batch_first);
    Value *h0 = initial_state(&rec, 5, directions, batch_first), *results[2][3], *column[2];
    Value *c0 = rec.has_cell ? initial_state(&rec, 6, directions, batch_first) : NULL;
    for (int d = 0; d < directions; d++) {
        for (int i = 0; i < n_activations; i++)
            rec.activations[i] = activation_at(&rec, d * n_activations + i, defaults, n_activations);
        run_direction(&rec, d, backwards || d == 1, of_direction(im->graph, h0, d), c0 ? of_direction(im->graph, c0, d) : NULL,
                      results[d]);
    }
    for (int i = 0; i < 2 + rec.has_cell; i++) {
        for (int d = 0; d < directions; d++) column[d] = results[d][i];
        output_states(&rec, i, column, directions, batch_first);
    }
}

void import_RNN(Import *im, const OnnxNode *node)
{
    recurrent(im, node, 1, (const char *const[]){"Tanh"}, 1);
}

void import_GRU(Import *im, const OnnxNode *node)
{
    recurrent(im, node, 3, (const char *const[]){"Sigmoid", "Tanh"}, 2);
}

void import_LSTM(Import *im, const OnnxNode *node)
{
    recurrent(im, node, 4, (const char *const[]){"Sigmoid", "Tanh", "Tanh"}, 3);
}
