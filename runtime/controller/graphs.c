/* Chooses what is recorded, and keeps it.  Needs: record.  Breaks: nothing. */
#include "graphs.h"
#include "../device/clock.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint64_t key;
    int64_t seen, wanted; /* steps so far; as many are wanted before it is recorded */
    bool useless;
} Counted;
typedef struct {
    uint64_t key;         /* 0: free */
    const Program *program;
    int64_t *dims;
    Recording *recording;
    int64_t used;         /* Graphs.steps when it was last replayed */
} Kept;
enum { EVENTS_MOST = 32 };
struct Graphs {
    const Model *model;
    struct Device *device;
    Counted counted[GRAPHS_COUNTED];
    int n_counted;
    Kept kept[GRAPHS_MOST];
    int64_t steps;
    Kept *now;            /* of the step in work; NULL */
    bool records;
    double began;
    GraphEvent event[EVENTS_MOST];
    int64_t *event_dims;  /* of each */
    int n_events, n_told;
};

Graphs *graphs_create(const Model *m, struct Device *device)
{
    Graphs *g = calloc(1, sizeof *g);
    const size_t n_dims = (size_t)m->n_dims + 1;
    if (!g) return NULL;
    g->model = m;
    g->device = device;
    g->event_dims = calloc(EVENTS_MOST * n_dims, sizeof *g->event_dims);
    bool whole = g->event_dims != NULL;
    for (int i = 0; i < GRAPHS_MOST; i++) {
        g->kept[i].dims = calloc(n_dims, sizeof *g->kept[i].dims);
        whole = whole && g->kept[i].dims;
    }
    if (whole) return g;
    graphs_destroy(g);
    return NULL;
}

void graphs_destroy(Graphs *graphs)
{
    if (!graphs) return;
    for (int i = 0; i < GRAPHS_MOST; i++) {
        recording_destroy(graphs->kept[i].recording);
        free(graphs->kept[i].dims);
    }
    free(graphs->event_dims);
    free(graphs);
}

int64_t graphs_bytes(const Graphs *graphs)
{
    int64_t bytes = 0;
    for (int i = 0; graphs && i < GRAPHS_MOST; i++)
        if (graphs->kept[i].recording) bytes += recording_bytes(graphs->kept[i].recording);
    return bytes;
}

/* ---- events ---- */
static void happened(Graphs *g, const char *event, const Kept *kept, const char *why, double seconds)
{
    if (g->n_events == EVENTS_MOST) return;
    int64_t *dims = g->event_dims + (size_t)g->n_events * ((size_t)g->model->n_dims + 1);
    memcpy(dims, kept->dims, (size_t)g->model->n_dims * sizeof *dims);
    g->event[g->n_events++] = (GraphEvent){.event = event, .dims = dims, .program = kept->program->name, .why = why, .size = recording_size(kept->recording),
                                           .bytes = recording_bytes(kept->recording), .milliseconds = 1e3 * seconds};
}

bool graphs_event(Graphs *graphs, GraphEvent *event)
{
    if (graphs->n_told == graphs->n_events) {
        graphs->n_told = graphs->n_events = 0;
        return false;
    }
    *event = graphs->event[graphs->n_told++];
    return true;
}

/* ---- what is hot ---- */
static uint64_t mix(uint64_t hash, const void *data, size_t n)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < n; i++) hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t key_of(const Model *m, const Step *s)
{
    uint64_t key = mix(UINT64_C(0xcbf29ce484222325), &s->program, sizeof s->program);
    key = mix(key, s->dims, (size_t)m->n_dims * sizeof *s->dims);
    key = mix(key, &s->arena, sizeof s->arena);
    key = mix(key, s->at, (size_t)s->program->n_buffers * sizeof *s->at);
    if (s->recompute) key = mix(key, s->recompute->acts, (size_t)s->program->n_points);
    key = mix(key, &s->narrow, sizeof s->narrow);
    return key ? key : 1;
}

/* Where all places are taken, that of the one that came least often. */
static Counted *count(Graphs *g, uint64_t key)
{
    Counted *least = &g->counted[0];
    for (int i = 0; i < g->n_counted; i++) {
        if (g->counted[i].key == key) return &g->counted[i];
        if (g->counted[i].seen < least->seen) least = &g->counted[i];
    }
    if (g->n_counted < GRAPHS_COUNTED) least = &g->counted[g->n_counted++];
    *least = (Counted){.key = key, .wanted = GRAPHS_HOT};
    return least;
}

static void drop(Graphs *g, Kept *kept, const char *why)
{
    if (!kept->key) return;
    happened(g, "graph_dropped", kept, why, 0);
    recording_destroy(kept->recording);
    kept->recording = NULL;
    kept->key = 0;
}

void graphs_drop(Graphs *graphs, const char *why)
{
    for (int i = 0; graphs && i < GRAPHS_MOST; i++) drop(graphs, &graphs->kept[i], why);
}

static Kept *find(Graphs *g, uint64_t key)
{
    for (int i = 0; i < GRAPHS_MOST; i++)
        if (g->kept[i].key == key) return &g->kept[i];
    return NULL;
}

/* A place for one more. */
static Kept *make_place(Graphs *g, uint64_t key, const Step *s)
{
    Kept *place = &g->kept[0];
    for (int i = 0; i < GRAPHS_MOST; i++) {
        Kept *k = &g->kept[i];
        if (k->program != s->program && !memcmp(k->dims, s->dims, (size_t)g->model->n_dims * sizeof *k->dims)) drop(g, k, "another program runs at its dims");
        if (place->key && (!k->key || k->used < place->used)) place = k;
    }
    drop(g, place, "others were replayed since");
    place->recording = recording_create(g->device);
    if (!place->recording) return NULL;
    place->key = key;
    place->program = s->program;
    memcpy(place->dims, s->dims, (size_t)g->model->n_dims * sizeof *place->dims);
    return place;
}

/* ---- a step ---- */
void graphs_begin(Graphs *graphs, Step *step, int64_t room)
{
    Graphs *g = graphs;
    const uint64_t key = key_of(g->model, step);
    Counted *counted = count(g, key);
    g->now = find(g, key);
    g->records = false;
    g->steps++;
    g->began = seconds_now();
    counted->seen++;
    if (!g->now) {
        if (counted->useless || counted->seen <= counted->wanted) return;
        g->now = make_place(g, key, step);
        if (!g->now) return;
        g->records = true;
        counted->wanted = 2 * counted->seen;
    }
    g->now->used = g->steps;
    if (recording_begin(g->now->recording, step, room - graphs_bytes(g))) {
        drop(g, g->now, "there is no memory for it");
        g->now = NULL;
    }
}

void graphs_end(Graphs *graphs, Step *step, int ended)
{
    Graphs *g = graphs;
    Kept *now = g->now;
    g->now = NULL;
    if (!now) return;
    if (recording_end(now->recording, step, ended)) {
        if (g->records) happened(g, "graph_recorded", now, "", seconds_now() - g->began);
        return;
    }
    const char *why = recording_why(now->recording);
    if (*why) count(g, now->key)->useless = true;
    drop(g, now, *why ? why : "its step did not come to its end");
}
