/* Makes, proves and keeps variants.  Needs: make and a compiler, in PATH; without them everything stays generic, and that is said
 * once. Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include "variants.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "../device/clock.h"
#include "../trainer/fault.h"
#include "compile.h"

static const double HOT_SECONDS =
                        60, /* dims that have taken so long in steps, and will take twice that again, are worth a compiler's time */
    FASTER = 0.98;          /* of the generic program's time: less is noise */
static const int COMPILE_SECONDS = 900;

typedef enum { COUNTED, COMPILING, PROVING, SWAPPED, DROPPED } Stage;
typedef struct {
    const Program *of;
    int64_t *dims;
    Stage stage;
    double seconds; /* in steps at these dims */
    char name[17], detail[200];
    void *library;
    Program program;
    int rounds;
    double generic[VARIANT_ROUNDS], candidate[VARIANT_ROUNDS];
    double compile_ms;
} Variant;
typedef struct {
    const char *event;
    int variant;
} Happened;

/* What the compiler's thread is told, and what it tells. */
typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool wanted, done, quit;
    int variant;
    Compile making;
    char outcome[200]; /* "": it is there */
    double milliseconds;
} Job;

struct Variants {
    const Model *model;
    VariantOptions options;
    uint64_t source; /* hash of model.cu, lean.h and their device; 0: model.cu is not there */
    Variant variant[VARIANTS_MOST];
    int n;
    bool wrong, wins; /* ordered by tests: variants are of other dims than they say, count as faster */
    bool stopped;     /* there is no compiler */
    int failed;       /* the variant that showed it; -1 */
    int limit;
    Happened happened[4 * VARIANTS_MOST];
    int n_happened, n_told;
    Job job;
    pthread_t thread;
    bool running, busy;
};

/* ---- the compiler's thread ---- */
static bool told_to_quit(void *of)
{
    Job *job = of;
    pthread_mutex_lock(&job->mutex);
    bool quit = job->quit;
    pthread_mutex_unlock(&job->mutex);
    return quit;
}

static void *serve(void *of)
{
    Job *job = of;
    char outcome[200];
    pthread_mutex_lock(&job->mutex);
    while (!job->quit) {
        if (!job->wanted || job->done) {
            pthread_cond_wait(&job->wake, &job->mutex);
            continue;
        }
        pthread_mutex_unlock(&job->mutex);
        double start = seconds_now();
        compile_target(&job->making, told_to_quit, job, outcome, sizeof outcome);
        pthread_mutex_lock(&job->mutex);
        memcpy(job->outcome, outcome, sizeof outcome);
        job->milliseconds = 1e3 * (seconds_now() - start);
        job->done = true;
    }
    pthread_mutex_unlock(&job->mutex);
    return NULL;
}

/* Signals are for the thread that trains. */
static bool start_thread(Variants *v)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    v->running = !pthread_create(&v->thread, NULL, serve, &v->job);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return v->running;
}

/* ---- names ---- */
static uint64_t mix(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static bool mix_file(uint64_t *hash, const VariantOptions *o, const char *name)
{
    char path[4200], bytes[4096];
    snprintf(path, sizeof path, "%s/%s", o->folder, name);
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, file)) > 0;) *hash = mix(*hash, bytes, n);
    fclose(file);
    return true;
}

static uint64_t hash_source(const VariantOptions *o)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), o->device, strlen(o->device));
    if (!mix_file(&hash, o, "model.cu")) return 0;
    mix_file(&hash, o, "lean.h"); /* where there is one */
    return hash ? hash : 1;
}

static void path_of(const Variants *v, const Variant *variant, char *path, size_t size)
{
    snprintf(path, size, "%s/variants/%s.so", v->options.folder, variant->name);
}

/* ---- life ---- */
Variants *variants_create(const Model *m, const VariantOptions *options)
{
    Variants *v = calloc(1, sizeof *v);
    const char *ordered = getenv("DISC_FAULT"), *limit = ordered ? strstr(ordered, "compile_seconds=") : NULL;
    if (!v) return NULL;
    v->model = m;
    v->options = *options;
    v->source = hash_source(options);
    v->failed = -1;
    v->wrong = ordered && strstr(ordered, "variant_wrong");
    v->wins = ordered && strstr(ordered, "variant_wins");
    v->limit = limit ? atoi(limit + 16) : COMPILE_SECONDS;
    pthread_mutex_init(&v->job.mutex, NULL);
    pthread_cond_init(&v->job.wake, NULL);
    return v;
}

void variants_destroy(Variants *variants)
{
    Variants *v = variants;
    if (!v) return;
    if (v->running) {
        pthread_mutex_lock(&v->job.mutex);
        v->job.quit = true;
        pthread_cond_signal(&v->job.wake);
        pthread_mutex_unlock(&v->job.mutex);
        pthread_join(v->thread, NULL);
    }
    pthread_mutex_destroy(&v->job.mutex);
    pthread_cond_destroy(&v->job.wake);
    for (int i = 0; i < v->n; i++) {
        if (v->variant[i].library) dlclose(v->variant[i].library);
        free(v->variant[i].dims);
    }
    free(v);
}

static void happened(Variants *v, const char *event, int variant)
{
    if (v->n_happened < (int)(sizeof v->happened / sizeof *v->happened)) v->happened[v->n_happened++] = (Happened){event, variant};
}

static void drop(Variants *v, int i, const char *why)
{
    Variant *variant = &v->variant[i];
    variant->stage = DROPPED;
    snprintf(variant->detail, sizeof variant->detail, "%s", why);
    happened(v, "variant_dropped", i);
}

static Variant *find(Variants *v, const Program *generic, const int64_t *dims)
{
    size_t bytes = (size_t)v->model->n_dims * sizeof *dims;
    for (int i = 0; i < v->n; i++)
        if (v->variant[i].of == generic && !memcmp(v->variant[i].dims, dims, bytes)) return &v->variant[i];
    if (v->n == VARIANTS_MOST) return NULL;
    Variant *variant = &v->variant[v->n];
    variant->dims = malloc(bytes + 1);
    if (!variant->dims) return NULL;
    memcpy(variant->dims, dims, bytes);
    variant->of = generic;
    const uint64_t of = mix(v->source, generic->name, strlen(generic->name));
    snprintf(variant->name, sizeof variant->name, "%016llx", (unsigned long long)mix(of, dims, bytes));
    v->n++;
    return variant;
}

/* ---- making ---- */
static void ask(Variants *v, Variant *variant)
{
    Job *job = &v->job;
    if (!v->running && !start_thread(v)) return;
    pthread_mutex_lock(&job->mutex);
    Compile *making = &job->making;
    *making = (Compile){.folder = v->options.folder, .device = v->options.device, .limit = v->limit};
    snprintf(making->target, sizeof making->target, "variants/%s.so", variant->name);
    snprintf(making->more, sizeof making->more, "VARIANT_DIMS=");
    for (int d = 0; d < v->model->n_dims; d++)
        text_add(making->more, sizeof making->more, "%s%lld", d ? "," : "",
                 (long long)(variant->dims[d] - (v->wrong && variant->dims[d] > 1)));
    job->variant = (int)(variant - v->variant);
    job->wanted = true;
    job->done = false;
    pthread_cond_signal(&job->wake);
    pthread_mutex_unlock(&job->mutex);
    v->busy = true;
    variant->stage = COMPILING;
    happened(v, "variant_compiling", job->variant);
}

/* What the variant has in place of the program's run ("train_lean_step") and replay. */
static void *symbol(const Variant *variant, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s_%s", variant->of->name, what);
    return dlsym(variant->library, name);
}

static const char *load(Variants *v, Variant *variant)
{
    char path[4400];
    path_of(v, variant, path, sizeof path);
    variant->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!variant->library) return "it cannot be loaded";
    variant->program = *variant->of;
    *(void **)&variant->program.run = symbol(variant, "step");
    if (!variant->program.run) return "it has no step";
    if (variant->program.replay) *(void **)&variant->program.replay = symbol(variant, "replay");
    return variant->of->replay && !variant->program.replay ? "it cannot run units again" : NULL;
}

static void collect(Variants *v)
{
    Job *job = &v->job;
    char outcome[200] = "";
    if (!v->busy) return;
    pthread_mutex_lock(&job->mutex);
    bool done = job->done;
    int i = job->variant;
    if (done) {
        memcpy(outcome, job->outcome, sizeof outcome);
        v->variant[i].compile_ms = job->milliseconds;
        job->wanted = false;
    }
    pthread_mutex_unlock(&job->mutex);
    if (!done) return;
    v->busy = false;
    const char *why = *outcome ? outcome : load(v, &v->variant[i]);
    if (*outcome) v->stopped = true, v->failed = i; /* a compiler that failed once is not asked again */
    if (why)
        drop(v, i, why);
    else
        v->variant[i].stage = PROVING;
}

const Program *variants_program(Variants *variants, const Program *generic, const int64_t *dims, const Program **candidate)
{
    *candidate = NULL;
    collect(variants);
    Variant *variant = find(variants, generic, dims);
    if (!variant) return generic;
    if (variant->stage == PROVING) *candidate = &variant->program;
    return variant->stage == SWAPPED ? &variant->program : generic;
}

void variants_spent(Variants *variants, const Program *generic, const int64_t *dims, double seconds, double seconds_left)
{
    Variants *v = variants;
    Variant *variant = find(v, generic, dims);
    char path[4400];
    if (!variant) return;
    variant->seconds += seconds;
    if (variant->stage != COUNTED || v->busy || v->stopped || !v->source) return;
    bool hot = variant->seconds >= HOT_SECONDS && seconds_left >= 2 * HOT_SECONDS;
    path_of(v, variant, path, sizeof path);
    if (hot || v->options.eager || !access(path, R_OK)) ask(v, variant);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, VARIANT_ROUNDS, sizeof *values, by_value);
    return (values[VARIANT_ROUNDS / 2 - 1] + values[VARIANT_ROUNDS / 2]) / 2;
}

void variants_proven(Variants *variants, const Program *generic, const int64_t *dims, bool same, double before, double after)
{
    Variants *v = variants;
    Variant *variant = find(v, generic, dims);
    if (!variant || variant->stage != PROVING) return;
    const int i = (int)(variant - v->variant);
    if (!same) {
        drop(v, i, "its results are not those of the generic program");
        return;
    }
    variant->generic[variant->rounds] = before;
    variant->candidate[variant->rounds++] = after;
    if (variant->rounds < VARIANT_ROUNDS) return;
    char times[100];
    const double usual = median(variant->generic), now = median(variant->candidate);
    snprintf(times, sizeof times, "%.4g ms a step, the generic program %.4g", 1e3 * now, 1e3 * usual);
    if (now > FASTER * usual && !v->wins) {
        char why[200];
        snprintf(why, sizeof why, "not faster: %s", times);
        drop(v, i, why);
        return;
    }
    variant->stage = SWAPPED;
    snprintf(variant->detail, sizeof variant->detail, "%s", times);
    happened(v, "variant_swapped", i);
}

void variants_failed(Variants *variants, const Program *generic, const int64_t *dims)
{
    Variant *variant = find(variants, generic, dims);
    if (variant && variant->stage == SWAPPED) drop(variants, (int)(variant - variants->variant), "it failed where the generic program does not");
}

bool variants_event(Variants *variants, VariantEvent *event)
{
    Variants *v = variants;
    if (v->n_told == v->n_happened) {
        v->n_told = v->n_happened = 0;
        return false;
    }
    const Happened *h = &v->happened[v->n_told++];
    const Variant *variant = &v->variant[h->variant];
    *event = (VariantEvent){h->event,
                            variant->dims,
                            variant->of->name,
                            variant->name,
                            strcmp(h->event, "variant_compiling") ? variant->detail : "",
                            variant->compile_ms,
                            v->failed == h->variant};
    return true;
}
