/* A model in memory that can be run, without options, files of data or progress: what the trainer is built on, and what another
 * program embeds.
 *
 *     Session *s;  Fault fault;  SessionOptions options = {.training = true, .seed = 1};
 *     if (session_open(&s, &model, &options, &fault)) ...                     two sessions do not know of each other
 *     if (session_load_weights(s, "weights.safetensors", true, &fault)) ...
 *     if (session_run(s, model.train, &batch, &result, &fault)) ...           result.loss, or result.broke with what broke
 *     session_close(s);
 *
 * Functions return 0 or the status in fault (fault.h).  One session, one thread at a time. */
#ifndef SESSION_H
#define SESSION_H
#include "../controller/controller.h"
#include "../controller/graphs.h"
#include "../controller/guards.h"
#include "../controller/late.h"
#include "../controller/mend.h"
#include "../controller/planner.h"
#include "../controller/trace.h"
#include "../controller/variants.h"
#include "../device/memory.h"
#include "fault.h"
#include "sharing.h"
#include "tensors.h"

typedef struct {
    int64_t memory_limit; /* bytes: state, arena and the device's overhead together; 0: what is free, less a margin */
    uint64_t seed;        /* of weights made by rule and of random numbers in the step */
    int64_t row_blocks;   /* of every loop over blocks of rows; 0: the planner chooses */
    LeanChoice lean;      /* whether products may be done again in such loops (planner.h) */
    bool training;        /* keep the optimizer's states */
    bool recompute_off;   /* never give up a buffer */
    Rates rates;          /* what the machine does in a second; copied 0: nothing is copied to the host and back */
    bool plan_again;      /* a broken range guard only asks for a plan at the new dims */
    const char *folder;   /* of the program, where variants of its step and unfused.cu are compiled; NULL: none are */
    bool variants, variants_eager; /* see variants.h */
    bool graphs;          /* steps of training that come again and again are replayed (graphs.h), where the device has graphs */
    int64_t verify_every; /* of so many steps one whose units are compared with their operations one by one; 0: none */
    bool trace_nan;       /* look for the first unit of a training step that makes a NaN */
} SessionOptions;

/* What made the gradients of a step no numbers: nobody looked (that is done where kernels may be mended, the first time, the second, the fourth…);
 * a kernel, computed unfused from now on; the numbers themselves; what did not happen again when it was looked for. */
typedef enum { KEPT_UNKNOWN, KEPT_KERNEL, KEPT_NUMBERS, KEPT_ONCE } KeptCause;

/* What happened to the budget while a step was planned (budget.h). */
typedef struct {
    int64_t refused;  /* bytes of the first arena that the device refused; 0: none */
    int64_t budget;   /* from now on */
    bool raised;      /* a step needed more than the budget, and the device had it */
    bool offload_off; /* the host had no memory for what was to be offloaded: nothing is, from now on */
} BudgetChange;

/* Read its members freely; only session.c and weights.c write them. */
typedef struct Session {
    const Model *model;
    SessionOptions options;
    Device *device;
    Planner *planner;
    int64_t limit, budget; /* bytes that state, arena and the device's overhead may take: at most, and now (budget.h) */
    int64_t free_bytes;    /* of the device when the session opened; 0: memory_limit was given */
    BudgetChange change;   /* in the last run */
    char *state; /* weights, then states, each aligned to 256; NULL until weights are loaded */
    int64_t state_bytes;
    void **weights, **states; /* device pointers into state */
    int n_states;             /* 0 when not training */
    double *hypers;           /* as in Model */
    char *arena;
    int64_t arena_bytes;  /* allocated now */
    struct Copies *copies; /* NULL until a plan offloads */
    int copies_points;     /* it has room for */
    int64_t peak_bytes;   /* the largest of any step so far */
    const Plan *plan;     /* of the last run */
    LatePlans *late_plans; /* where late dims at their bounds do not fit; NULL: never yet */
    int64_t *at;          /* where buffers lie: the plan's, and what its points changed */
    int at_room;
    int64_t *dims, *late; /* of the last run */
    Arrived *arrived;
    int64_t updates;  /* steps that changed weights */
    double loss_scale;      /* 0: the program has none */
    int64_t steps_at_scale; /* since it was last changed */
    void **gradients; /* host memory for each weight, or NULL: not wanted */
    Trace *trace;     /* NULL: not wanted */
    Variants *variants;         /* NULL: not wanted */
    Graphs *graphs;             /* NULL: not wanted */
    bool proving;               /* programs are compared: both launch one by one */
    Mend *mend;                 /* NULL: this session does not train */
    char *state_copies;         /* two, where any was needed; NULL */
    int proofs;
    bool *kept;                 /* by weight: raised by the step (Step.kept); memory of the host's that the device reaches */
    int64_t kept_steps;         /* in which any was */
    bool wide;                  /* the last step's kernels took 64-bit indices */
    Sharing sharing;            /* of training steps among the processor's threads */
    bool *told;                 /* by guard: that kernels take elements one by one was said */
} Session;

typedef struct {
    bool broke; /* the batch contradicts the model: nothing has changed */
    Breach breach;
    bool not_finite; /* it broke at the commit point: the loss was no finite number */
    bool planned_again; /* a range guard broke; the step ran with a plan for its dims */
    Breach range;
    bool other_form; /* kernels run in another form than before, as a guard broke */
    Breach form;
    bool overflowed; /* gradients were not finite at the loss scale `scale`: no weight has changed, the next step's scale is half */
    bool scaled_up;  /* after many steps without: the next step's scale is twice */
    double scale;    /* of the loss in this step; 0: none */
    double loss;
    double seconds;     /* batch in memory to weights updated */
    int64_t peak_bytes; /* of this step's plan: state and arena */
    int recomputed;     /* launches that ran again */
    const char *program; /* that was planned for: "train" or its lean twin */
    int64_t blocks;     /* the most of any loop over blocks of rows */
    BudgetChange memory;
    int planned_late;   /* how often the step was planned again as late dims became known */
    bool nan;           /* traced: session->trace says which unit made the first */
    bool blind;         /* not all results could be looked at for NaN, or verified */
    int64_t offloaded;  /* bytes copied to the host */
    int kept;           /* weights of which elements keep what they had, as what they were to become is no finite number */
    int kept_first;     /* the first of them */
    Breach update;      /* where there are some */
    KeptCause cause;    /* what made it so */
    const char *node;   /* with KEPT_NUMBERS: where the first NaN is made; NULL: nowhere, a number became too large */
} StepResult;

int session_open(Session **session, const Model *m, const SessionOptions *options, Fault *fault);
void session_close(Session *session);
int64_t state_bytes(const Model *m, bool training); /* weights, and the optimizer's states when training */

/* Every weight from the file; path NULL: by the model's rules; by_rule: a weight that the file lacks is made by its rule if it has
 * one. */
int session_load_weights(Session *session, const char *path, bool by_rule, Fault *fault);
int session_save_weights(Session *session, const char *path, Fault *fault);
int session_want_gradients(Session *session, Fault *fault); /* the next run fills session->gradients */
int session_save_gradients(Session *session, const char *path, Fault *fault);
void session_drop_gradients(Session *session);
/* The first weight that holds a NaN or infinity; -1: none does. */
int session_weights_finite(Session *session, int *weight, Fault *fault);

bool session_has_hyper(const Model *m, const char *name);
void session_set_hyper(Session *session, const char *name, double value); /* one that the model has */

/* Bytes that a step at these dims takes within the memory limit: state and arena.  Where no plan fits: the least that would do. */
int session_peak(Session *session, const Program *program, const int64_t *dims, int64_t *peak, Fault *fault);
/* The fault of a budget that is too small: says what would do, least being a peak. */
int session_no_room(const Session *session, int64_t least, const char *what, Fault *fault);
bool session_fits(const Session *session, int64_t peak);

/* Checks the batch, plans, uploads, runs.  Random numbers are by batch->number, its place in the stream. */
int session_run(Session *session, const Program *program, const Batch *batch, StepResult *result, Fault *fault);
/* After a run that did not break: output i's shape (late dims as the step found them) and its elements into host memory of `size`
 * bytes. */
int64_t session_output_bytes(const Session *session, const Program *program, int output, int64_t *shape);
int session_output(const Session *session, const Program *program, int output, void *to, size_t size, Fault *fault);

int device_fault(int error, const char *doing, Fault *fault); /* a device's error as a fault */
/* Dims of the shapes in `arrived`, starting from likely values (late ones from their upper bounds). */
void bind_dims(const Model *m, const Arrived *arrived, int64_t *dims);
/* Dims as a batch of these shapes would bind them: fills in what follows from them (upper bounds of late dims). */
void settle_dims(const Model *m, Arrived *scratch, int64_t *dims);
#endif
