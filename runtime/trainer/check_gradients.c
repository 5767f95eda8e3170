/* --check-gradients: the gradients of the first batch against differences of the loss, some elements of each weight.
 * Needs: options checked.  Breaks: nothing; each run starts from the same weights, states and running statistics, and with the same
 * numbers for dropout. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "differences.h"
#include "json.h"
#include "programs.h"

enum {
    ALL = 24,
    SAMPLED = 16
}; /* a weight of up to ALL elements is checked whole; of others, SAMPLED and the largest gradient's */

typedef struct {
    const Model *model;
    Session *session;
    Batch batch;
    char *state;     /* what every run starts from */
    void **analytic; /* beside the weights, NULL where none is wanted; owned */
    double loss;
    const Precision *precision;
    char *at; /* the element that varies, on the device */
    Dtype dtype;
    Fault *fault;
} Check;

typedef struct {
    int64_t checked, kinks, rounding, wrong;
    int64_t element; /* whose error is the worst: of the wrong ones, else of those that agree; -1: none */
    double worst, analytic, numeric;
} Found;

/* ---- runs ---- */
/* The loss, with the element that varies at x; not a number where the program found none. */
static int run(Check *c, double x, double *loss)
{
    char bytes[8];
    StepResult result;
    Session *s = c->session;
    int error = device_upload(s->device, s->state, c->state, (size_t)s->state_bytes);
    if (!error && c->at) {
        tensor_convert(bytes, (int)c->dtype, &x, F64, 1);
        error = device_upload(s->device, c->at, bytes, dtype_bytes((int)c->dtype));
    }
    int status = device_fault(error, "setting weights", c->fault);
    s->updates = 0;
    if (!status) status = session_run(s, c->model->train, &c->batch, &result, c->fault);
    if (status) return status;
    if (result.broke && !c->at) return anomaly_fault(0, &result.breach, c->fault);
    *loss = result.broke ? (double)NAN : result.loss;
    return 0;
}

static int loss_at(void *check, double x, double *loss)
{
    return run(check, x, loss);
}

/* The state as it was loaded, and the gradients there. */
static int start(Check *c)
{
    Session *s = c->session;
    c->state = malloc((size_t)s->state_bytes + 1);
    if (!c->state) return fault_memory(c->fault);
    int status = device_fault(device_download(s->device, c->state, s->state, (size_t)s->state_bytes), "reading weights", c->fault);
    if (!status) status = session_want_gradients(s, c->fault);
    if (!status) status = run(c, 0, &c->loss);
    c->analytic = s->gradients;
    s->gradients = NULL; /* the runs that follow need none */
    return status;
}

/* ---- a weight ---- */
static double weight_element(const Check *c, int weight, int64_t i)
{
    const char *data = c->state + ((const char *)c->session->weights[weight] - c->session->state);
    return element_as_double(data, (int)c->model->weights[weight].dtype, i);
}

static int check_element(Check *c, int weight, int64_t i, double scale, double most, Found *found)
{
    const int dtype = (int)c->model->weights[weight].dtype;
    Element e = {.x = weight_element(c, weight, i), .scale = scale, .loss = c->loss, .least_size = 1e-3 * most};
    Difference d;
    e.analytic = element_as_double(c->analytic[weight], dtype, i);
    c->dtype = (Dtype)dtype;
    c->at = (char *)c->session->weights[weight] + (size_t)i * dtype_bytes(dtype);
    int status = difference_judge(&e, c->precision, loss_at, c, &d);
    c->at = NULL;
    if (status) return status;
    found->checked++;
    found->kinks += d.verdict == DIFFERENCE_KINK;
    found->rounding += d.verdict == DIFFERENCE_ROUNDING;
    bool wrong = d.verdict == DIFFERENCE_WRONG, first = found->element < 0 || (wrong && !found->wrong);
    found->wrong += wrong;
    if (!wrong && (d.verdict != DIFFERENCE_AGREES || found->wrong)) return 0;
    if (!first && !(d.error > found->worst)) return 0;
    found->element = i;
    found->worst = d.error;
    found->analytic = e.analytic;
    found->numeric = d.numeric;
    return 0;
}

/* Numbers in place of random ones: the same elements in every run.  (splitmix64) */
static int64_t sample(uint64_t *state, int64_t below)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ z >> 31) % (uint64_t)below);
}

static int check_weight(Check *c, int weight, Found *found)
{
    const WeightInfo *info = &c->model->weights[weight];
    int64_t n = count_of(info->rank, info->dims), largest = 0;
    double square = 0, most = 0;
    uint64_t state = 1;
    *found = (Found){.element = -1};
    for (int64_t i = 0; i < n; i++) {
        double x = weight_element(c, weight, i), g = fabs(element_as_double(c->analytic[weight], (int)info->dtype, i));
        square += x * x;
        if (g > most) most = g, largest = i;
    }
    double scale = square > 0 && isfinite(square) ? fmin(sqrt(square / (double)n), 1) : 1;
    int status = 0;
    for (int64_t k = 0, wanted = n <= ALL ? n : SAMPLED; k < wanted && !status; k++)
        status = check_element(c, weight, n <= ALL ? k : sample(&state, n), scale, most, found);
    return status || n <= ALL ? status : check_element(c, weight, largest, scale, most, found);
}

/* ---- what is told ---- */
static const char *place_of(const WeightInfo *info, int64_t element, char *out, size_t size)
{
    int64_t at[MAX_RANK];
    for (int k = info->rank - 1; k >= 0; k--) {
        at[k] = element % info->dims[k];
        element /= info->dims[k];
    }
    return dims_text(info->rank, at, out, size);
}

static void print_weight(const WeightInfo *info, const Found *f)
{
    char place[256];
    printf("%s: %" PRId64 " of %" PRId64, info->name, f->checked, count_of(info->rank, info->dims));
    if (f->wrong) printf(", %" PRId64 " WRONG", f->wrong);
    if (f->element >= 0)
        printf(", worst relative error %.1e at %s: gradient %.9g, differences %.9g", f->worst,
               place_of(info, f->element, place, sizeof place), f->analytic, f->numeric);
    if (f->kinks) printf("; %" PRId64 " at a kink", f->kinks);
    if (f->rounding) printf("; %" PRId64 " as far as the loss has digits", f->rounding);
    putchar('\n');
}

static void print_weight_json(const WeightInfo *info, const Found *f, bool first)
{
    fputs(first ? "{\"name\":" : ",{\"name\":", stdout);
    json_string(stdout, info->name);
    printf(",\"checked\":%" PRId64 ",\"wrong\":%" PRId64 ",\"kinks\":%" PRId64 ",\"rounding\":%" PRId64 ",\"element\":%" PRId64
           ",\"worst\":",
           f->checked, f->wrong, f->kinks, f->rounding, f->element);
    json_real(stdout, f->worst);
    fputs(",\"gradient\":", stdout);
    json_real(stdout, f->analytic);
    fputs(",\"differences\":", stdout);
    json_real(stdout, f->numeric);
    putchar('}');
}

static void add(Found *sum, const Found *f)
{
    sum->checked += f->checked;
    sum->kinks += f->kinks;
    sum->rounding += f->rounding;
    sum->wrong += f->wrong;
    if (f->element >= 0 && !(f->worst <= sum->worst)) sum->worst = f->worst;
}

static void print_json(const Check *c, const Found *founds, const Found *sum)
{
    bool first = true;
    fputs("{\"tensors\":[", stdout);
    for (int i = 0; i < c->model->n_weights; i++) {
        if (!c->analytic[i]) continue;
        print_weight_json(&c->model->weights[i], &founds[i], first);
        first = false;
    }
    printf("],\"checked\":%" PRId64 ",\"wrong\":%" PRId64 ",\"kinks\":%" PRId64 ",\"rounding\":%" PRId64 ",\"worst\":",
           sum->checked, sum->wrong, sum->kinks, sum->rounding);
    json_real(stdout, sum->worst);
    printf(",\"tolerance\":%g}\n", c->precision->tolerance);
}

/* ---- all of them ---- */
static int check_weights(Check *c, const Options *o)
{
    const Model *m = c->model;
    Found *founds = calloc((size_t)m->n_weights + 1, sizeof *founds), sum = {0};
    int status = founds ? 0 : fault_memory(c->fault), tensors = 0, wrong = 0;
    for (int i = 0; i < m->n_weights && !status; i++) {
        if (!c->analytic[i]) continue;
        status = check_weight(c, i, &founds[i]);
        if (status) break;
        print_weight(&m->weights[i], &founds[i]);
        add(&sum, &founds[i]);
        tensors++;
        wrong += founds[i].wrong > 0;
    }
    if (!status) {
        printf("gradients of %d tensors, %" PRId64 " elements: worst relative error %.1e, tolerance %g (%s)", tensors, sum.checked,
               sum.worst, c->precision->tolerance, m->precision);
        if (sum.kinks) printf("; %" PRId64 " at a kink, apart", sum.kinks);
        if (sum.rounding) printf("; %" PRId64 " equal as far as the loss has digits", sum.rounding);
        putchar('\n');
        if (o->json) print_json(c, founds, &sum);
        if (sum.wrong)
            status = fault_set(c->fault, STATUS_FAULT,
                               "%" PRId64 " of %" PRId64 " gradients checked, in %d of %d tensors, are not what differences of the "
                               "loss say",
                               sum.wrong, sum.checked, wrong, tensors);
    }
    free(founds);
    return status;
}

int check_gradients_program(const Model *m, const Options *options, const char *folder, Fault *fault)
{
    if (!strcmp(m->precision, "bf16") || !strcmp(m->precision, "fp16"))
        return fault_set(fault, STATUS_USER,
                         "--check-gradients: this program's losses are of %s products, too coarse to tell differences by; generate it with "
                         "--precision fp64",
                         m->precision);
    const Options *o = options;
    Check c = {.model = m, .fault = fault};
    Data data = {0};
    if (!m->train) return fault_set(fault, STATUS_USER, "this program was generated without training");
    c.precision = strcmp(m->precision, "fp64") ? &precision_float : &precision_double;
    DataOptions wanted = {.path = o->data ? o->data : o->batch_file,
                          .ready = o->batch_file != NULL,
                          .shuffle = true,
                          .batch_size = o->batch_size,
                          .seed = (uint64_t)o->seed};
    SessionOptions session_wanted = {
        .memory_limit = o->memory_limit,
                             .row_blocks = o->row_blocks, .seed = (uint64_t)o->seed, .training = true, .plan_again = o->on_anomaly == ANOMALY_HEAL};
    int status = data_open(&data, m, m->train, &wanted, fault);
    if (!status) status = session_open(&c.session, m, &session_wanted, fault);
    for (int i = 0; i < OPTION_HYPERS && !status; i++)
        if (o->hyper_given[i]) session_set_hyper(c.session, option_hyper_names[i], o->hypers[i]);
    if (!status) status = check_budget(c.session, m->train, &data, 0, 1, fault);
    if (!status) status = load_initial_weights(c.session, o, folder, fault);
    if (!status && batch_create(&c.batch, m)) status = fault_memory(fault);
    if (!status) status = data_batch(&data, 0, &c.batch, fault);
    if (!status) status = start(&c);
    if (!status) status = check_weights(&c, o);
    for (int i = 0; c.analytic && i < m->n_weights; i++) free(c.analytic[i]);
    free(c.analytic);
    free(c.state);
    batch_destroy(&c.batch);
    session_close(c.session);
    data_close(&data);
    return status;
}
