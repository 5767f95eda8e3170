/* A program as the planner sees it: units, the versions of buffers that they read and write, and the gaps between two uses of a
 * version.  Independent of dims.
 *
 * A version is what a buffer holds from one write to the next: a unit that writes in place ends one version and begins another in
 * the same memory.  Version v has gaps gap_at[v]..gap_at[v + 1] - 1: before its first use, between uses, and after its last. */
#ifndef FLOW_H
#define FLOW_H
#include <stddef.h>
#include "controller.h"
#ifdef __cplusplus
extern "C" {
#endif

/* What happens to a version in a gap.  After its last use it counts only for chains, that make others again from it. */
typedef enum {
    KEEP,  /* stays */
    DROP,  /* gone; made again wherever it is needed, and gone again at once */
    EVICT, /* gone; once a chain has made it, it stays until its next use */
    LEND,  /* stays until a chain has read it */
    OFFLOAD /* copied to the host, and back while the unit before its next use runs; no chain may ask for it meanwhile */
} Mode;

typedef struct {
    const Program *program;
    int n_units, n_all, n_versions, n_gaps; /* n_all: units and recipes */
    int *in_at, *in;                       /* by unit: versions that it reads, each once */
    int *out_at, *out;                     /* by unit: versions that it makes */
    int *temp_at, *temp;                   /* by unit: buffers that live within it alone */
    int *kill;                             /* by unit: the first unit that assigns what it reads; n_units: none */
    int *buffer, *maker, *over;            /* by version: its buffer, unit (-1: the batch), version that it overwrites (-1: none) */
    int *remaker;      /* by version: recipe that makes it again where the other results of its maker are there; else its maker */
    int *use_at, *use;                     /* by version: units that read it */
    int *gap_at, *gap_version, *gap_point; /* gap_point: -1: always kept, but for last gaps, which have none */
    int *early_at, *early;                 /* by unit: gaps whose version may be fetched from the host while it runs */
    uint8_t *movable;                      /* by gap */
    void *memory;
} Flow;

Flow *flow_create(const Program *program); /* NULL without memory */
void flow_destroy(Flow *flow);
int flow_order(const Flow *flow, int unit); /* units and recipes in the order in which a chain runs them */
int flow_gap_start(const Flow *flow, int gap); /* unit that uses or makes it before the gap; -1: from the start */
int flow_gap_end(const Flow *flow, int gap);   /* unit that uses it after the gap; n_units: nobody */
bool flow_may_offload(const Flow *flow, int gap);

/* ---- sizes and costs at some dims ---- */
/* What a machine does in a second: to compare plans.  copied: bytes one way between device and host; 0: nothing is offloaded. */
typedef struct {
    double flops, moved, copied;
} Rates;
extern const Rates NOMINAL_RATES; /* of a recent GPU; nothing is offloaded */
extern const Rates OFFLOAD_RATES; /* the same over PCIe */

typedef struct {
    int64_t *bytes;              /* by version */
    const int64_t *buffer_bytes; /* the caller's */
    int64_t *temp_bytes;         /* by unit: most alive at once of what lives within it */
    double *seconds;             /* by unit: nominal, to compare plans */
    int64_t *flops, *moved;      /* by unit */
    double all_seconds, copied; /* copied: as in Rates */
    int64_t all_flops;
} Sizes;
/* flops and moved: of each unit; they are copied. */
bool sizes_make(Sizes *sizes, const Flow *flow, const Rates *rates, const int64_t *buffer_bytes, const int64_t *flops,
                const int64_t *moved);
bool sizes_at_dims(Sizes *sizes, const Flow *flow, const Rates *rates, const int64_t *dims,
                   const int64_t *buffer_bytes); /* false without memory */
void sizes_free(Sizes *sizes);

/* ---- what a plan does ---- */
typedef struct {
    int version, first, last, point;
} Segment; /* executions; a version that overwrites lies in the segment of the first; point: it came from the host at; -1 */
typedef struct Simulation Simulation;
struct Simulation {
    const Flow *flow;
    const Sizes *sizes;
    int *execution, *stage, n_executions; /* unit run; unit of the step before which it runs (itself: the step's own) */
    Segment *segments;
    int n_segments;
    int *opened_at; /* by segment: beside executions: which execution opened it (-1: the batch) */
    int64_t peak;
    int peak_unit;
    int64_t *unit_peak; /* by unit of the step */
    double seconds;     /* of what runs again, and of copies as far as nothing runs beside them */
    double copying;     /* seconds of all copies one way */
    int64_t flops, offloaded; /* bytes copied to the host */
    int64_t evaluations;
    /* scratch */
    uint8_t *resident, *evicted; /* evicted: by gap, whether the plan had to bring the version back at its end */
    uint8_t *away;               /* by version: ON_HOST, or ARRIVING: its memory is there, its content not yet */
    int *segment_of, *gap_of, *current, *mark, *list, *touched, room_executions, room_segments, mark_number;
    int64_t *alive;
};
Simulation *simulation_create(const Flow *flow, const Sizes *sizes);
size_t simulation_room(const Flow *flow); /* executions at most */
void simulation_destroy(Simulation *s);
/* Runs the step under a plan, one mode a gap.  False where it cannot be done: something would have to be made from what is gone for
 * good, or costs more than most_seconds. */
bool simulate(Simulation *s, const uint8_t *modes, double most_seconds);
#ifdef __cplusplus
}
#endif
#endif
