/* Prints steps as the planner sees them, and the ladder of plans that it finds, one line of JSON a step, for optimum.py to compare
 * with the exact optimum.
 *
 *     optimum KIND SIZE SEED      a training step made at random: "chain", "residual" or "random" of SIZE forward operations
 *     optimum NAME=N …            linked with a generated program: its training step at these dims */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ladder.h"

extern const Model model __attribute__((weak));

enum { UNITS = 256, TOUCHES = 8192, POINTS = 8192, MOST_DIMS = 64, PARENTS = 2, FORWARD = 64 };
static const int64_t TOUCHES_OF_SEARCH = 60000000; /* as the planner where no plans came with the program */

/* ---- steps at random: a unit makes one buffer of its own number ---- */
typedef struct {
    Unit units[UNITS];
    Life lives[UNITS];
    int64_t bytes[UNITS], moved[UNITS];
    int touches[TOUCHES], n_touches;
    Point points[POINTS];
    int last_use[UNITS];
    uint64_t random;
    Program program;
} Made;
static Made made; /* a Program's functions know dims alone */

static int below(int n) /* xorshift64* */
{
    made.random ^= made.random >> 12, made.random ^= made.random << 25, made.random ^= made.random >> 27;
    return (int)((made.random * 0x2545f4914f6cdd1d >> 33) % (uint64_t)n);
}

static void made_bytes(const int64_t *dims, int64_t *out)
{
    (void)dims;
    memcpy(out, made.bytes, (size_t)made.program.n_buffers * sizeof *out);
}

static void made_costs(const int64_t *dims, int64_t *flops, int64_t *moved)
{
    (void)dims;
    memset(flops, 0, (size_t)made.program.n_units * sizeof *flops);
    memcpy(moved, made.moved, (size_t)made.program.n_units * sizeof *moved);
}

/* A unit that reads some buffers and makes one of so many bytes. */
static int unit(bool again, const int *reads, int n, int64_t bytes, int64_t moved)
{
    Program *p = &made.program;
    int u = p->n_units++;
    p->n_buffers = p->n_units;
    made.units[u] = (Unit){u, u, again, "", 0};
    made.moved[u] = moved;
    made.bytes[u] = bytes;
    for (int i = 0; i < n; i++) {
        int b = reads[i];
        if (made.units[b].again && made.last_use[b] < u - 1)
            made.points[p->n_points++] = (Point){b, made.last_use[b], u, "", false};
        made.last_use[b] = made.lives[b].last = u;
        made.touches[made.n_touches++] = b;
    }
    made.touches[made.n_touches++] = TOUCHES_END;
    made.touches[made.n_touches++] = u;
    made.touches[made.n_touches++] = TOUCHES_END;
    made.last_use[u] = u;
    made.lives[u] = (Life){u, u, "", "", F32};
    return u;
}

typedef struct {
    int at[PARENTS], n;
} Parents;

static Parents parents_of(const char *kind, int i)
{
    Parents p = {{i - 1}, i > 0};
    int skip = !strcmp(kind, "residual") && i > 0 && i % 3 == 0             ? i - 3
               : !strcmp(kind, "random") && i >= 2 && below(100) < 45 ? i - 2 - below(i - 1 < 5 ? i - 1 : 5)
                                                                      : -1;
    if (skip >= 0) p.at[p.n++] = skip;
    return p;
}

/* Backward: gradients of one value are summed; an operation's gradient reads its operands (mostly), its result (sometimes). */
static void made_step(const char *kind, int size)
{
    static const int64_t costs[] = {2, 5, 10, 20, 50, 100, 200};
    Parents parents[FORWARD];
    int gradients[FORWARD][FORWARD], n_gradients[FORWARD] = {0};
    int64_t bytes[FORWARD] = {0};
    for (int i = 0; i < size; i++) {
        parents[i] = parents_of(kind, i);
        bytes[i] = !strcmp(kind, "residual") && i % 3 == 0 && i ? bytes[0] : 1 + below(8);
        unit(true, parents[i].at, parents[i].n, bytes[i], costs[below(7)]);
    }
    gradients[size - 1][n_gradients[size - 1]++] = unit(false, (int[]){size - 1}, 1, bytes[size - 1], 1);
    for (int i = size - 1; i >= 0; i--) {
        int g = gradients[i][0];
        if (n_gradients[i] > 1) g = unit(false, gradients[i], n_gradients[i], bytes[i], 1);
        bool reads_result = below(10) < 4, reads_operands = below(4) < 3;
        for (int k = 0; k < parents[i].n; k++) {
            int reads[2 + PARENTS] = {g}, n = 1;
            for (int j = 0; reads_operands && j < parents[i].n; j++) reads[n++] = parents[i].at[j];
            if (reads_result) reads[n++] = i;
            int parent = parents[i].at[k];
            gradients[parent][n_gradients[parent]++] = unit(false, reads, n, bytes[parent], made.moved[i]);
        }
        if (!parents[i].n) unit(false, &g, 1, 0, made.moved[i]);
    }
}

static const Program *program_at_random(char **words)
{
    made.random = (uint64_t)atoi(words[2]) * 0x9e3779b97f4a7c15 + 1;
    made_step(words[0], atoi(words[1]));
    made.program.lives = made.lives;
    made.program.bytes = made_bytes;
    made.program.n_launches = made.program.n_units;
    made.program.units = made.units;
    made.program.touches = made.touches;
    made.program.costs = made_costs;
    made.program.points = made.points;
    return &made.program;
}

/* ---- what is printed ---- */
static void print_list(const char *name, const int *list, int n)
{
    printf("\"%s\": [", name);
    for (int i = 0; i < n; i++) printf("%s%d", i ? ", " : "", list[i]);
    printf("]");
}

static void print_step(const Flow *f, const Sizes *sizes)
{
    const Program *p = f->program;
    printf("{\"units\": %d, \"seconds\": %.17g, \"runs\": [", f->n_units, sizes->all_seconds);
    for (int u = 0; u < f->n_all; u++) {
        printf("%s{\"order\": %d, \"again\": %s, \"until\": %d, \"seconds\": %.17g, \"scratch\": %" PRId64 ", ", u ? ", " : "",
               flow_order(f, u), p->units[u].again ? "true" : "false", f->kill[u], sizes->seconds[u], sizes->temp_bytes[u]);
        print_list("reads", f->in + f->in_at[u], f->in_at[u + 1] - f->in_at[u]);
        printf(", ");
        print_list("makes", f->out + f->out_at[u], f->out_at[u + 1] - f->out_at[u]);
        printf("}");
    }
    printf("], \"versions\": [");
    for (int v = 0; v < f->n_versions; v++)
        printf("%s{\"bytes\": %" PRId64 ", \"maker\": %d, \"over\": %d}", v ? ", " : "", sizes->bytes[v], f->maker[v], f->over[v]);
}

static int print_ladder(const Flow *f, const Sizes *sizes)
{
    Ladder ladder;
    Simulation *s = simulation_create(f, sizes);
    ladder_init(&ladder, f);
    if (!s || !ladder_search(&ladder, s, ladder_effort(f, TOUCHES_OF_SEARCH))) return 1;
    ladder_straighten(&ladder);
    printf("], \"ladder\": [");
    for (int i = 0; i < ladder.n; i++)
        printf("%s[%" PRId64 ", %.17g]", i ? ", " : "", ladder.rungs[i].peak, ladder.rungs[i].seconds);
    printf("]}\n");
    ladder_free(&ladder);
    simulation_destroy(s);
    return 0;
}

static void read_dims(int n, char **words, int64_t *dims)
{
    for (int i = 0; i < model.n_dims; i++) dims[i] = model.dims[i].likely;
    for (int w = 0; w < n; w++)
        for (int i = 0; i < model.n_dims; i++) {
            size_t length = strlen(model.dims[i].name);
            if (!strncmp(words[w], model.dims[i].name, length) && words[w][length] == '=') dims[i] = atoll(words[w] + length + 1);
        }
}

int main(int argc, char **argv)
{
    int64_t dims[MOST_DIMS] = {0};
    const Program *p;
    if (&model) {
        p = model.train;
        read_dims(argc - 1, argv + 1, dims);
    } else {
        if (argc != 4 || atoi(argv[2]) < 2 || atoi(argv[2]) > FORWARD) return 2;
        p = program_at_random(argv + 1);
    }
    int64_t *bytes = calloc((size_t)p->n_buffers + 1, sizeof *bytes);
    Flow *f = flow_create(p);
    Sizes sizes;
    if (!bytes || !f) return 1;
    p->bytes(dims, bytes);
    if (!sizes_at_dims(&sizes, f, &NOMINAL_RATES, dims, bytes)) return 1;
    print_step(f, &sizes);
    int status = print_ladder(f, &sizes);
    sizes_free(&sizes);
    flow_destroy(f);
    free(bytes);
    return status;
}
