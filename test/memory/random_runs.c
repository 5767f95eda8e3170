/* random_runs BATCHES.safetensors WEIGHTS.safetensors RUNS SEED LEAST MOST: the plan is what happens.  Linked with a generated program.
 *
 * Draws dims, a number of blocks of rows, whether copies to the host are allowed, and for each of these some budgets between the least
 * that would do and what a step takes without one.  A run is two steps within a budget, from the weights of the file.  Its high-water mark
 * is peak_bytes, and no more than the budget; losses and gradients are those without a budget: bit for bit where blocks of rows are
 * as many (always where their number was asked for), else within rounding.  One byte less than the least runs nothing, where no dim is late.  Of two budgets,
 * the larger recomputes no more.
 *
 * The content of batches is that of the file's, over and over; a step takes LEAST to MOST million operations. */
#include "random_dims.h"
#include "runtime/trainer/data.h"
#include "model.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 2, BUDGETS = 8 };
static const int64_t MOST_DIM = 96;
static const double NEAR_LOSS = 1e-6, NEAR_GRADIENT = 1e-6; /* of the loss; of the tensor's norm */

typedef struct {
    int64_t dims[MOST_DIMS], row_blocks;
    bool offload;
} Case;

typedef struct {
    double loss[STEPS];
    char *gradients[STEPS]; /* all weights', one after another */
    int64_t peak, high_water, moved_away;
    int again;
    const Program *program;
    int64_t dims[MOST_DIMS]; /* with the blocks of rows that were chosen */
} Outcome;

typedef struct {
    const char *weights;
    Data data;
    Batch donor, batch;
    uint64_t random;
    int64_t least_flops, most_flops;
    int failures, runs, cases, exact, near, offloaded;
    int64_t again;
    double worst_loss, worst_gradient;
} Test;

static void fail(Test *t, const Case *c, int64_t budget, const char *what)
{
    printf("FAILED: %s: budget %" PRId64 ", --row-blocks %" PRId64 "%s, at", what, budget, c->row_blocks, c->offload ? ", offload" : "");
    for (int i = 0; i < model.n_dims; i++) printf(" %s=%" PRId64, model.dims[i].name, c->dims[i]);
    printf("\n");
    t->failures++;
}

static void need(int status, const Fault *fault)
{
    if (!status) return;
    printf("FAILED: %s\n", fault->text);
    exit(1);
}

static int64_t elements_of(int weight)
{
    return model.weights[weight].trainable ? count_of(model.weights[weight].rank, model.weights[weight].dims) : 0;
}

/* ---- batches ---- */
static void fill(Test *t, const Case *c, int number)
{
    Fault fault;
    need(data_batch(&t->data, random_below(&t->random, t->data.n_batches), &t->donor, &fault), &fault);
    t->batch.number = number;
    for (int i = 0; i < model.n_inputs; i++) {
        const BatchInput *from = &t->donor.inputs[i];
        BatchInput *to = &t->batch.inputs[i];
        to->present = from->present;
        if (!from->present) continue;
        to->dtype = from->dtype;
        to->rank = model.inputs[i].rank;
        model.inputs[i].shape(c->dims, to->dims);
        if (batch_reserve(to, (size_t)count_of(to->rank, to->dims) * dtype_bytes(to->dtype))) exit(1);
        for (size_t k = 0; k < to->bytes; k++) ((char *)to->data)[k] = ((const char *)from->data)[k % from->bytes];
    }
}

/* ---- a run ---- */
static SessionOptions options_of(const Case *c, int64_t budget)
{
    SessionOptions o = {.training = true, .seed = 1, .plan_again = true, .memory_limit = budget, .row_blocks = c->row_blocks};
    if (c->offload) o.rates = (Rates){1e9, 1e9, 1e12}; /* copies cost next to nothing: plans use them */
    return o;
}

static char *gradients_of(const Session *s)
{
    size_t bytes = 0;
    for (int i = 0; i < model.n_weights; i++) bytes += (size_t)elements_of(i) * sizeof(float);
    char *all = malloc(bytes + 1), *to = all;
    for (int i = 0; all && i < model.n_weights; i++) {
        if (!s->gradients[i]) continue;
        const size_t n = (size_t)elements_of(i) * sizeof(float);
        memcpy(to, s->gradients[i], n);
        to += n;
    }
    return all;
}

static void outcome_free(Outcome *o)
{
    for (int k = 0; k < STEPS; k++) free(o->gradients[k]);
}

/* 0; -1: the batch contradicts the model; STATUS_BUDGET: nothing has run. */
static int run(Test *t, const Case *c, int64_t budget, uint64_t content, Outcome *o)
{
    Session *s;
    Fault fault;
    StepResult result;
    const SessionOptions options = options_of(c, budget);
    memset(o, 0, sizeof *o);
    int status = session_open(&s, &model, &options, &fault);
    if (!status) status = session_load_weights(s, t->weights, true, &fault);
    t->random = content;
    for (int k = 0; k < STEPS && !status; k++) {
        fill(t, c, k);
        need(session_want_gradients(s, &fault), &fault);
        status = session_run(s, model.train, &t->batch, &result, &fault);
        if (status) break;
        if (result.broke) status = -1;
        o->loss[k] = result.loss;
        o->gradients[k] = gradients_of(s);
        o->moved_away += result.offloaded;
        o->again += result.recomputed;
        o->peak = result.peak_bytes;
        o->program = s->plan->program;
        memcpy(o->dims, s->plan->dims, (size_t)model.n_dims * sizeof *o->dims);
    }
    if (status > 0 && status != STATUS_BUDGET) need(status, &fault);
    if (s) o->high_water = device_high_water(s->device);
    session_close(s);
    return status;
}

/* ---- comparing ---- */
static double norm(const float *a, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)a[i] * a[i];
    return sqrt(sum);
}

/* The difference of two tensors, of the tensor.  One that is nothing but rounding (the bias of keys has no gradient) is measured by a
 * thousandth of the largest of all. */
static double off_by(const float *a, const float *b, int64_t n, double of_all)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
    return sum > 0 ? sqrt(sum) / fmax(norm(b, n), of_all / 1000) : 0;
}

static double largest_of_all(const float *gradients)
{
    double most = 0;
    for (int i = 0; i < model.n_weights; i++) {
        most = fmax(most, norm(gradients, elements_of(i)));
        gradients += elements_of(i);
    }
    return most;
}

static void compare(Test *t, const Case *c, int64_t budget, const Outcome *a, const Outcome *b, bool exactly)
{
    for (int k = 0; k < STEPS; k++) {
        const float *x = (const float *)a->gradients[k], *y = (const float *)b->gradients[k];
        const double of_all = exactly ? 0 : largest_of_all(y), loss = fabs(a->loss[k] - b->loss[k]) / fabs(b->loss[k]);
        if (exactly && memcmp(&a->loss[k], &b->loss[k], sizeof a->loss[k])) return fail(t, c, budget, k ? "other bits in the second loss" : "other bits in the loss");
        if (!exactly && loss > t->worst_loss) t->worst_loss = loss;
        if (!exactly && !(loss <= NEAR_LOSS)) return fail(t, c, budget, "the loss is beyond rounding");
        for (int i = 0; i < model.n_weights; i++) {
            const int64_t n = elements_of(i);
            if (exactly && memcmp(x, y, (size_t)n * sizeof *x)) return fail(t, c, budget, model.weights[i].name);
            const double off = exactly ? 0 : off_by(x, y, n, of_all);
            if (off > t->worst_gradient) t->worst_gradient = off;
            if (!(off <= NEAR_GRADIENT)) return fail(t, c, budget, model.weights[i].name);
            x += n, y += n;
        }
        if (!exactly) break; /* the second step begins with other weights */
    }
}

static void judge(Test *t, const Case *c, int64_t budget, const Outcome *o, const Outcome *free)
{
    const bool alike = o->program == free->program && !memcmp(o->dims, free->dims, (size_t)model.n_dims * sizeof *o->dims);
    if (c->row_blocks && !alike) fail(t, c, budget, "another number of blocks than asked for");
    if (o->high_water != o->peak) fail(t, c, budget, "the high-water mark is not peak_bytes");
    if (budget && o->peak > budget) fail(t, c, budget, "peak_bytes passes the budget");
    compare(t, c, budget, o, free, alike);
    t->exact += alike, t->near += !alike;
    t->again += o->again;
    t->offloaded += o->moved_away > 0;
}

/* ---- budgets ---- */
static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Rising budgets: what fits goes on fitting, and operations done again never grow. */
static void check_rising(Test *t, const Case *c, Planner *planner, int64_t state, const int64_t *budgets)
{
    int64_t before = INT64_MAX;
    for (int i = 0; i < BUDGETS; i++) {
        const Plan *plan;
        if (planner_find_within(planner, model.train, c->dims, budgets[i] - state, &plan)) exit(1);
        if (plan->arena_bytes > budgets[i] - state) fail(t, c, budgets[i], "no plan where a smaller budget had one");
        if (!c->offload && plan->recomputed_flops > before) fail(t, c, budgets[i], "recomputes more than within a smaller budget");
        before = plan->recomputed_flops;
    }
}

static void draw_budgets(Test *t, const Case *c, int64_t most, int64_t *budgets)
{
    Planner *planner = planner_create(model.n_dims);
    const int64_t state = state_bytes(&model, true);
    const Rates rates = options_of(c, 0).rates;
    int64_t least;
    if (!planner) exit(1);
    if (c->offload) planner_rates(planner, &rates);
    planner_set_row_blocks(planner, c->row_blocks);
    if (planner_least(planner, model.train, c->dims, &least)) exit(1);
    least += state;
    for (int i = 0; i < BUDGETS; i++) budgets[i] = !i ? least : least + random_below(&t->random, most - least + 1);
    qsort(budgets, BUDGETS, sizeof *budgets, by_value);
    check_rising(t, c, planner, state, budgets);
    planner_destroy(planner);
}

/* Where late dims turn out to be below their bounds, less than the least by the bounds may do. */
static bool has_late_dims(void)
{
    bool late = false;
    for (int i = 0; i < model.n_dims; i++) late |= model.dims[i].late;
    return late;
}

static void run_case(Test *t, const Case *c, int wanted)
{
    Outcome free, other;
    int64_t budgets[BUDGETS];
    const uint64_t content = random_bits(&t->random), after = random_bits(&t->random);
    const Case whole = {.row_blocks = 1};
    Case without = *c;
    without.offload = false;
    const int status = run(t, &without, 0, content, &free);
    t->random = after;
    if (status) {
        if (status != -1) fail(t, c, 0, "no run without a budget");
        outcome_free(&free);
        return;
    }
    if (free.high_water != free.peak || free.again) fail(t, c, 0, "without a budget");
    draw_budgets(t, c, free.peak, budgets);
    if (c->row_blocks != 1) {
        without.row_blocks = whole.row_blocks;
        if (run(t, &without, 0, content, &other)) fail(t, &without, 0, "no run in one block");
        compare(t, &without, 0, &free, &other, free.program == other.program && !memcmp(free.dims, other.dims, (size_t)model.n_dims * 8));
        outcome_free(&other);
    }
    if (run(t, c, budgets[0] - 1, content, &other) != STATUS_BUDGET && !has_late_dims()) fail(t, c, budgets[0] - 1, "less than the least will do");
    outcome_free(&other);
    for (int i = 0; i < BUDGETS && i < wanted; i++) {
        if (run(t, c, budgets[i], content, &other))
            fail(t, c, budgets[i], "no run");
        else
            judge(t, c, budgets[i], &other, &free);
        outcome_free(&other);
        t->runs++;
    }
    t->cases++;
    t->random = after + (uint64_t)t->cases;
    outcome_free(&free);
}

static Case draw_case(Test *t)
{
    Case c = {.row_blocks = 0};
    random_dims(&model, &t->random, MOST_DIM, t->least_flops, t->most_flops, c.dims);
    c.row_blocks = random_below(&t->random, 3) ? random_below(&t->random, 2) * random_size(&t->random, 1, 9) : 1;
    c.offload = random_below(&t->random, 3) == 0;
    return c;
}

int main(int n, char **arguments)
{
    Fault fault;
    static Test t;
    if (n != 7 || model.n_dims > MOST_DIMS) return 2;
    const int runs = atoi(arguments[3]);
    const DataOptions from = {.path = arguments[1], .ready = true};
    t.weights = arguments[2];
    t.random = (uint64_t)atoll(arguments[4]);
    t.least_flops = 1000000 * atoll(arguments[5]);
    t.most_flops = 1000000 * atoll(arguments[6]);
    need(data_open(&t.data, &model, model.train, &from, &fault), &fault);
    need(batch_create(&t.donor, &model) || batch_create(&t.batch, &model) ? fault_memory(&fault) : 0, &fault);
    for (int drawn = 0; t.runs < runs && !t.failures; drawn++) {
        const Case c = draw_case(&t);
        if (drawn > 100 + 20 * t.cases) need(fault_set(&fault, 1, "hardly any dims can be run"), &fault);
        run_case(&t, &c, runs - t.runs);
    }
    printf("%d budgets over %d sets of dims: %d bit for bit, %d in other blocks (loss within %.1e, gradients %.1e); %d copied to the host; "
           "%.1f launches again in a step\n",
           t.runs, t.cases, t.exact, t.near, t.worst_loss, t.worst_gradient, t.offloaded, (double)t.again / t.runs / STEPS);
    batch_destroy(&t.donor);
    batch_destroy(&t.batch);
    data_close(&t.data);
    return t.failures != 0;
}
