/* What a generated program and the runtime share.  model.cu holds the kernels and the steps, controller.c the tables below; the runtime reads
 * tables and never knows the model.  C and C++; no global state: everything hangs on a Model (constant) and a Step (one running program).
 *
 * Sizes are functions of the dims: an array of int64_t in the order of Model.dims, which model.h also names as struct Dims. */
#ifndef CONTROLLER_H
#define CONTROLLER_H
#include <stdbool.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

enum { MAX_RANK = 8 };
typedef enum { F32, F64, F16, BF16, I8, I16, I32, I64, U8, U16, U32, U64, BOOL } Dtype; /* as stored; names and bytes in trainer/tensors.h */

typedef struct { const char *name; int64_t low, high, likely; bool declared; bool late; } DimInfo;

/* A tensor of the batch.  rank -1 never occurs.  target: what the loss compares with; data files may call it "labels". */
typedef struct {
    const char *name;
    Dtype dtype;
    int rank;
    void (*shape)(const int64_t *dims, int64_t *out);  /* what the model wants */
    const char *shape_text;                            /* "batch, seq" */
    int sample_axis;                                   /* axis along which samples lie; -1: the tensor has none (a scalar, a table) */
    bool target, has_ignore;
    int64_t ignore;                                    /* of a target: this value is not counted */
} InputInfo;

typedef struct {
    const char *name;                                  /* the initializer's */
    Dtype dtype;
    int rank;
    int64_t dims[MAX_RANK];
    bool trainable, statistics;
    const char *init;                                  /* rule where weights.safetensors has no data: "zeros", "ones", "normal(0.02)", "uniform(-a, a)"; NULL otherwise */
} WeightInfo;
typedef struct { const char *name; int weight; } StateInfo;           /* "wte.weight.exp_avg"; shape and dtype of its weight; starts at 0 */
/* Scalars set for each step.  "step" counts from 1.  Derived ones ("bias_correction1" = 1 - beta1^step,
 * "bias_correction2", "one_minus_beta1" = 1 - beta1 and the like) are made by the trainer, as are "loss_scale" and "inverse_loss_scale". */
typedef struct { const char *name; double value; } HyperInfo;         /* value: PyTorch's default */
typedef struct { const char *name; Dtype dtype; int rank; void (*shape)(const int64_t *dims, int64_t *out); const char *shape_text; } OutputInfo;

/* ---- guards ---- */
typedef enum { ON_ARRIVAL, ON_CONTENT, AT_LATE_DIM, AT_COMMIT, AT_END } Moment;
typedef enum { SET_ASIDE, PLAN_AGAIN, UNFUSED, KEEP_ELEMENTS,          /* what happens when a guard breaks */
               WIDE_INDICES, SINGLE_ELEMENTS } Otherwise;             /* …these two: kernels run in another form, right for any dims */
/* The greatest index of a kernel's 32-bit form: a loop's step past its end (2^20 blocks of at most 256 threads) is within 32 bits. */
#ifndef INDEX_LIMIT
#define INDEX_LIMIT (INT32_MAX - (1 << 28))
#endif
/* A batch as it came, before anything runs. */
typedef struct {
    int rank;
    int64_t dims[MAX_RANK];
    int64_t lowest, highest, counted;                  /* of integers; the ignored value aside */
    bool not_finite;                                   /* floats: a NaN or infinity among them */
} Arrived;
typedef struct { const Arrived *input; bool loss_is_finite, update_is_finite; } Arrival; /* input: beside Model.inputs */
typedef struct {
    const char *name, *formula, *source, *relies;      /* seq_equal, "attention_mask.shape[1] == seq", node, what relies on it */
    Moment moment;
    Otherwise otherwise;
    bool (*holds)(const int64_t *dims, const Arrival *arrival);
} Guard;

/* ---- programs ---- */
enum { RAW = -1 };                                     /* instead of a Dtype: bytes, whatever their kernel puts there */
/* Positions in the step's list of launches, both included; buffers of a loop span the loop.  dtype: of its elements, or RAW. */
typedef struct { int first, last; const char *name, *source; int dtype; } Life;
typedef struct Step Step;
/* What a step does, in order: each unit is a few launches that belong together.  again: it may be run a second time with the same
 * results, as long as nobody has assigned a weight or state that it reads. */
typedef struct { int first, last; bool again; const char *source; int of; } Unit; /* launches, both included; of: only of recipes */
enum { TOUCHES_END = INT32_MIN };                      /* ends a list of Program.touches */
/* Between launch `gone`, which uses the buffer, and launch `back`, which uses it next, its memory may serve others: evict and
 * regenerate of that number in the step. */
typedef struct { int buffer, gone, back; const char *recipe; bool offload; } Point; /* offload: the step can copy it to the host and back */
typedef struct { int64_t bytes, flops, moved; } PointCost; /* what its memory is, what the recipe takes where nothing it reads is gone */
/* Loops over blocks of rows: the dim that is the rows of a block; how many rows there are, and how many bytes of what is wide in each.
 * Model.bind sets the dim; the planner makes it smaller where that saves memory that is wanted. */
typedef struct { int dim; int64_t (*rows)(const int64_t *dims), (*row_bytes)(const int64_t *dims); } RowLoop;
/* A dim that the step learns from a launch, before the commit point: until then it counts with its upper bound. */
typedef struct { int dim, launch; } LateDim;
typedef struct Program {
    const char *name;                                  /* "train", "evaluate", "infer" */
    int n_buffers; const Life *lives;
    void (*bytes)(const int64_t *dims, int64_t *out);  /* of each buffer; late dims at their upper bounds */
    int n_inputs; const int *input_buffer;             /* buffer of each Model.input; -1: this program does not read it */
    int n_outputs; const OutputInfo *outputs; const int *output_buffer;
    int n_launches;
    /* Of a whole step.  moved: what its kernels read and write.  least: weights, states and batch read once, what is assigned written
     * once, and what the forward pass keeps for the backward pass (the stash) written once and read once. */
    void (*traffic)(const int64_t *dims, int64_t *moved, int64_t *least, int64_t *flops);
    bool (*narrow)(const int64_t *dims, const Arrival *arrival); /* a guard: every index fits into 32 bits; NULL: no kernel has such a form */
    int (*run)(Step *step);                            /* 0 or an error of device/memory.h */
    int n_units; const Unit *units;                    /* of a training step; unit(s, k) of its text begins the kth */
    int n_recipes;                                     /* further units, never of the step itself: each makes some results of unit `of` again from its others */
    const int *touches;                                /* of each unit and recipe: what it reads, then what it writes: buffers, ~i weight i, ~(n_weights + i) state i */
    void (*costs)(const int64_t *dims, int64_t *flops, int64_t *moved); /* of each unit and recipe */
    int n_points; const Point *points;                 /* 0: memory is planned by lives alone */
    void (*point_costs)(const int64_t *dims, PointCost *out);
    void (*replay)(Step *step, int unit);              /* runs a unit again, its buffers where step->at says */
    int n_blocks; const RowLoop *blocks;
    const struct Program *lean;                        /* the same step in less memory and more time; NULL: there is none */
    int n_late; const LateDim *late;                   /* in the order in which they become known */
    int n_again;                                       /* of a lean one: products that it does again */
    const char *const *library; int n_library;         /* plans found when the program was generated (ladder.h): one character a point */
} Program;
/* What a plan does at its points.  A point that acts runs its actions where its buffer comes back: a buffer gets a new place, or a unit
 * is run again.  One that offloads was copied to the host, and is copied back to another place. */
typedef struct { int buffer, unit; int64_t at; } Action; /* unit >= 0: run it; else buffer lies at `at` from now on */
typedef enum { POINT_RESTS, POINT_REMAKES, POINT_OFFLOADS } PointActs;
typedef struct {
    const uint8_t *acts;                               /* by point: PointActs */
    const int *first; const Action *actions;           /* actions of point k: first[k] to first[k + 1] */
    const int64_t *back_at, *host_at, *copied;         /* of a point that offloads: byte offsets in the arena and in the host's memory, bytes */
} Recompute;

typedef struct {
    const char *name, *source, *loss, *optimizer, *precision; /* model's file, loss as the user would write it */
    bool classifies;                                   /* evaluation counts correct ones */
    int n_dims; const DimInfo *dims; int batch_dim;    /* batch_dim -1: none */
    int n_inputs; const InputInfo *inputs;
    int n_weights; const WeightInfo *weights;
    int n_states; const StateInfo *states;
    int n_hypers; const HyperInfo *hypers;
    void (*bind)(const Arrival *arrival, int64_t *dims); /* reads the dims off the shapes; a dim no input shows keeps its place's value */
    int n_guards; const Guard *guards;
    const Program *train, *evaluate, *infer;           /* NULL where not generated */
    bool unfused;                                      /* there is an unfused.cu: units of training, each operation by operation (mend.h) */
    const char *settings;                              /* the generator's command line, for the log */
} Model;
extern const Model model;                              /* the only external name of controller.c */

/* ---- one running program ---- */
/* Whoever looks at a step while it runs.  begins: called before the first launch of a unit where `every` is set; ends: when a unit's results
 * are wanted, where `every` or s->error is set.  Both may clear or set the error. */
typedef struct Watch Watch;
struct Watch { bool every; void (*begins)(Watch *watch, Step *step), (*ends)(Watch *watch, Step *step); };
struct Step {
    const int64_t *dims;                               /* late ones still at their upper bounds */
    void (*plan_again)(Step *step, int dim);           /* called when a late dim is known; may change what is not yet used of at, and recompute; or NULL */
    struct LatePlans *plans;                           /* plan_again's (late.h) */
    int64_t *late;                                     /* a copy of dims in which the step writes late dims as it learns them */
    char *arena; int64_t *at;                          /* byte offset of each buffer; points change it */
    const Recompute *recompute;                        /* NULL: no point acts */
    struct Copies *copies;                             /* of device/copies.h: to and from the host, beside the launches; NULL: nothing is offloaded */
    const Program *program;
    void *const *weights, *const *states;              /* device pointers, as in Model */
    const double *hypers;                              /* as in Model */
    uint64_t seed; int64_t number;                     /* for random numbers: the same mask when remade */
    struct Device *device;                             /* of device/memory.h: asked before each launch; may be NULL */
    void *stream;                                      /* cudaStream_t on CUDA */
    void *blas;                                        /* cublasHandle_t on CUDA */
    bool narrow;                                       /* the dims allow kernels with 32-bit indices: Program.narrow */
    bool tf32;                                         /* products of floats may round their operands to tf32 */
    void *const *gradients;                            /* NULL, or host memory for each weight's gradient (NULL entries are not wanted) */
    bool *kept;                                        /* by weight, in memory of the host's: raised where elements of it, or of its moments, keep what they
                                                          had, as what they were to become is no finite number */
    double loss;                                       /* written at the commit point */
    int error;                                         /* first error of a launch, 0 */
    const char *kernel;                                /* launched last; the one that failed */
    const char *broken;                                /* with STEP_BROKEN: the guard's name */
    Watch *watch;                                      /* or NULL */
    int unit;                                          /* that runs now */
    int nth_unit;                                      /* counts units as they come, those that run again too */
    bool begun, ended;                                 /* it has launched something; the watch has seen its results */
    struct Recording *recording;                       /* of record.h: launches are recorded or replayed; NULL: they run as they come */
    const uint8_t *refused;                            /* by unit and recipe: launches nothing, the watch makes its results; NULL: none */
};
/* Returned by run; no weight has changed. */
enum { STEP_NOT_FINITE = 1000,                         /* the loss was no finite number */
       STEP_OVERFLOW,                                  /* the loss was, but not all gradients at this loss scale */
       STEP_BROKEN,                                    /* a late dim, now known, breaks a guard */
       STEP_REFUSED,                                   /* until the watch has made the unit's results */
       STEP_NO_ROOM };                                 /* with a late dim now known, the rest of the step does not fit */
#ifdef __cplusplus
}
#endif
#endif
