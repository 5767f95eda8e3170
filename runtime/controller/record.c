/* Records a step and replays it.  Needs: a step whose launches depend on its program, dims and plan.  Breaks: nothing. */
#include "record.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const NodeKind *kind;
    const char *name;     /* of a launch */
    size_t what, bytes;   /* what it does: so many bytes at Recording.bytes + what */
    int result;
    int unit, nth_unit;   /* that it belongs to; by number, and as they come in the step */
} Node;
typedef struct {
    Graph *graph;
    int first, last;      /* nodes; last excluded */
} Segment;
struct Recording {
    struct Device *device;
    int64_t room;
    bool made;            /* whole: from now on it is replayed */
    bool within;          /* a segment has begun and is not launched */
    const char *why;      /* given up; NULL */
    Node *node;
    int n, capacity;
    char *bytes;
    size_t n_bytes, room_bytes;
    Segment segment[RECORD_GRAPHS_MOST];
    int n_segments, now;  /* now: the segment that is recorded or replayed */
    int next, changed;    /* node to come; kernels that were changed */
    int64_t *at_first, *at_now; /* where buffers lay as the segment began, and lie now */
    int n_buffers;
};
typedef struct {
    int64_t buffer, at;
} Move;

static int move(Step *s, const void *what)
{
    const Move *m = what;
    s->at[m->buffer] = m->at;
    return 0;
}
static const NodeKind MOVE = {move, NULL, true};

Recording *recording_create(struct Device *device)
{
    Recording *r = calloc(1, sizeof *r);
    if (r) r->device = device;
    return r;
}

static void free_graphs(Recording *r)
{
    for (int i = 0; i < r->n_segments; i++) graph_free(r->segment[i].graph);
    r->n_segments = 0;
}

void recording_destroy(Recording *recording)
{
    Recording *r = recording;
    if (!r) return;
    free_graphs(r);
    free(r->node);
    free(r->bytes);
    free(r->at_first);
    free(r->at_now);
    free(r);
}

int64_t recording_bytes(const Recording *recording)
{
    int64_t bytes = 0;
    for (int i = 0; i < recording->n_segments; i++)
        if (recording->segment[i].graph) bytes += graph_bytes(recording->segment[i].graph);
    return bytes;
}

const char *recording_why(const Recording *recording)
{
    return recording->why ? recording->why : "";
}

RecordingSize recording_size(const Recording *recording)
{
    return (RecordingSize){recording->n, recording->n_segments, recording->changed};
}

/* ---- one by one ---- */
/* A launch whose graph does not come: as device.h would have done it. */
static int do_now(Step *s, const NodeKind *kind, const char *name, const void *what)
{
    if (kind->aside) return s->error && kind != &MOVE ? 0 : kind->run(s, what);
    if (!s->begun) unit_begins(s);
    if (s->error) return 0;
    s->kernel = name;
    s->error = device_launching(s->device, name);
    return s->error ? 0 : kind->run(s, what);
}

static void enter_unit(Step *s, int unit)
{
    unit_ends(s);
    s->unit = unit;
    s->begun = s->ended = false;
}

static void do_nodes(Recording *r, Step *s, int first, int last)
{
    for (int i = first; i < last; i++) {
        const Node *a = &r->node[i];
        if (i == first)
            s->unit = a->unit, s->begun = s->ended = false;
        else if (a->nth_unit != r->node[i - 1].nth_unit)
            enter_unit(s, a->unit);
        if (a->kind == &MOVE) unit_ends(s); /* before anything that it touches lies elsewhere */
        const int result = do_now(s, a->kind, a->name, r->bytes + a->what);
        if (result != a->result && !s->error) s->error = DEVICE_LAUNCH_FAILED; /* the step went by the other */
    }
}

static void keep_places(Recording *r, int64_t *to, const Step *s)
{
    if (s->recompute) memcpy(to, s->at, (size_t)r->n_buffers * sizeof *to);
}
static void set_places(Recording *r, const int64_t *from, Step *s)
{
    if (s->recompute) memcpy(s->at, from, (size_t)r->n_buffers * sizeof *from);
}

/* The nodes of the segment that have not been launched, in the places and units where they belong; then the step is where it was. */
void record_give_up(Step *step, const char *why)
{
    Step *s = step;
    Recording *r = s->recording;
    const Step now = *s;
    const int first = r->within ? r->segment[r->now].first : 0, last = r->within ? r->made ? r->next : r->n : first;
    r->why = why;
    s->recording = NULL;
    free_graphs(r);
    if (first == last) return;
    s->error = 0;
    set_places(r, r->at_first, s);
    do_nodes(r, s, first, last);
    if (r->node[last - 1].nth_unit != now.nth_unit) {
        enter_unit(s, now.unit);
        s->begun = now.error && now.begun; /* else the next launch begins it, once more */
    }
    if (!s->error) s->error = now.error, s->kernel = now.kernel;
}

/* ---- recording ---- */
static bool begin_segment(Recording *r, Step *s)
{
    if (r->n_segments == RECORD_GRAPHS_MOST) return false;
    Segment *segment = &r->segment[r->n_segments++];
    *segment = (Segment){NULL, r->n, r->n};
    keep_places(r, r->at_first, s);
    return !graph_begin(&segment->graph, r->device);
}

static Node *append(Recording *r, const Step *s, const NodeKind *kind, const void *what, size_t bytes)
{
    const size_t at = (r->n_bytes + 15) / 16 * 16;
    if (r->n == r->capacity) {
        const int capacity = r->capacity ? 2 * r->capacity : 256;
        Node *node = realloc(r->node, (size_t)capacity * sizeof *node);
        if (!node) return NULL;
        r->node = node;
        r->capacity = capacity;
    }
    if (at + bytes > r->room_bytes) {
        const size_t room = 2 * r->room_bytes + bytes + 4096;
        char *grown = realloc(r->bytes, room);
        if (!grown) return NULL;
        r->bytes = grown;
        r->room_bytes = room;
    }
    Node *a = &r->node[r->n++];
    *a = (Node){kind, s->kernel, at, bytes, 0, s->unit, s->nth_unit};
    memcpy(r->bytes + at, what, bytes);
    r->n_bytes = at + bytes;
    return a;
}

/* False where it is not recorded; the graph then holds nothing that counts. */
static bool keep(Recording *r, Step *s, const NodeKind *kind, const void *what, size_t bytes, int *result)
{
    if (!r->within && !begin_segment(r, s)) return false;
    r->within = true;
    Node *a = append(r, s, kind, what, bytes);
    if (!a) return false;
    const int error = graph_add(r->segment[r->now].graph, s, kind, what, bytes, &a->result);
    *result = a->result;
    if (!error && !s->error) return true;
    s->error = 0;
    r->n--;
    return false;
}

/* ---- replaying ---- */
/* A kernel's arguments are others than in the step before. */
static bool change(Recording *r, const Node *a, const void *what)
{
    const KernelLaunch *is = (const KernelLaunch *)(r->bytes + a->what), *was = what;
    if (!a->kind->change || is->kernel != was->kernel) return false;
    if (graph_change(r->segment[r->now].graph, r->next - r->segment[r->now].first, a->kind, what)) return false;
    memcpy(r->bytes + a->what, what, a->bytes);
    r->changed++;
    return true;
}

static bool follow(Recording *r, Step *s, const NodeKind *kind, const void *what, size_t bytes, int *result)
{
    if (r->now == r->n_segments) return false;
    if (!r->within) keep_places(r, r->at_first, s);
    r->within = true;
    if (r->next == r->segment[r->now].last) return false;
    const Node *a = &r->node[r->next];
    if (a->kind != kind || a->bytes != bytes) return false;
    if (memcmp(r->bytes + a->what, what, bytes) && !change(r, a, what)) return false;
    r->next++;
    *result = a->result;
    return true;
}

/* ---- a step ---- */
int record(Step *step, const NodeKind *kind, const void *what, size_t bytes)
{
    Recording *r = step->recording;
    const char *name = step->kernel;
    int result = 0;
    const bool kept = r->made ? follow(r, step, kind, what, bytes, &result) : keep(r, step, kind, what, bytes, &result);
    if (kept) return result;
    record_give_up(step, r->made ? "the step launches something else than was recorded" : "it could not be recorded");
    return do_now(step, kind, name, what);
}

void record_move(Step *step, int buffer, int64_t at)
{
    const Move m = {buffer, at};
    if (step->recording) record(step, &MOVE, &m, sizeof m);
    step->at[buffer] = at;
}

/* The simulator's graph moves buffers as the step does. */
static int launch(Recording *r, Step *s)
{
    keep_places(r, r->at_now, s);
    set_places(r, r->at_first, s);
    const int error = graph_launch(r->segment[r->now].graph, s);
    set_places(r, r->at_now, s);
    return error;
}

void record_pause(Step *step)
{
    Step *s = step;
    Recording *r = s->recording;
    if (!r || !r->within) return;
    Segment *segment = &r->segment[r->now];
    const char *why = NULL;
    if (!r->made) {
        segment->last = r->n;
        const int error = graph_end(segment->graph, r->room - recording_bytes(r));
        if (error) why = error == DEVICE_OUT_OF_MEMORY ? "the budget leaves no room for it" : "it could not be made";
    } else if (r->next != segment->last) {
        why = "the step launches less than was recorded";
    }
    if (!why && !s->error && launch(r, s)) why = "it could not be launched";
    if (why || s->error) {
        record_give_up(s, why ? why : "a launch failed");
        return;
    }
    r->within = false;
    r->now++;
}

int recording_begin(Recording *recording, Step *step, int64_t room)
{
    Recording *r = recording;
    const int n = step->program->n_buffers;
    if (n > r->n_buffers) {
        free(r->at_first);
        free(r->at_now);
        r->at_first = malloc((size_t)n * sizeof *r->at_first);
        r->at_now = malloc((size_t)n * sizeof *r->at_now);
        r->n_buffers = r->at_first && r->at_now ? n : 0;
        if (!r->n_buffers) return DEVICE_OUT_OF_MEMORY;
    }
    r->room = room;
    r->within = false;
    r->now = r->next = r->changed = 0;
    r->why = NULL;
    if (!r->made) {
        free_graphs(r);
        r->n = 0;
        r->n_bytes = 0;
    }
    step->recording = r;
    return 0;
}

bool recording_end(Recording *recording, Step *step, int ended)
{
    Recording *r = recording;
    if (step->recording) record_pause(step);
    step->recording = NULL;
    if (r->why) return false;
    r->made = r->made || !ended;
    return r->made;
}
