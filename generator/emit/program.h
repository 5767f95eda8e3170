/* A program flattened: the list of launches of one step, the buffers they need and the lives of these. */
#ifndef PROGRAM_H
#define PROGRAM_H
#include "emit/emit.h"
#include "emit/pointers.h"

/* ---- names and tables that all programs of a model share ---- */
typedef struct NamedTensor {
    Tensor *tensor;
    const char *c; /* name in C */
} NamedTensor;
typedef struct NamedInput {
    Value *value; /* of the first program that has it */
    const char *c;
} NamedInput;
typedef struct NamedDim {
    Expr *symbol;
    const char *c;
} NamedDim;
typedef struct NamedBlock { /* of loops over blocks of rows: the dim that is a block's rows, all rows, bytes of what is wide in one */
    Expr *symbol, *rows, *row_bytes;
} NamedBlock;
typedef struct Layout {
    Arena *arena;
    Symbols *symbols;
    Map *taken; /* names in C that are used up: keywords, functions of the runtime, kernels, dims, tensors */
    VEC(NamedDim) dims;
    int *dim_of; /* by symbol_index: place in dims, -1 */
    VEC(NamedBlock) blocks;
    VEC(NamedInput) inputs, hypers;
    VEC(NamedTensor) weights, states;
    Map *input_of, *hyper_of, *weight_of, *state_of; /* name -> pointer to the entry's place + 1 */
    const struct Guards *guards;                     /* once they are made, for the files that tell them; NULL */
} Layout;

Layout *layout_new(Arena *arena, Symbols *symbols);
void layout_add(Layout *layout, const Graph *g);                     /* collects what the program uses */
void layout_name(Layout *layout, const char *const *kernels, int n); /* gives C names; after all kernels are known */
const char *layout_unique(Layout *layout, Map *also,
                          const char *wanted);      /* a name in neither, taken from now on in the second (or first) */
const NamedBlock *layout_block(const Layout *layout, const Expr *symbol); /* NULL: an ordinary dim */
bool layout_reserves(const char *name); /* a word that C, the runtime or the step has a meaning for */
int layout_find(const Map *map, const char *name);  /* -1 */
const char *layout_state(const Layout *l, const Tensor *state);        /* "states->fc_weight": all that the optimizer keeps of its weight */
const char *layout_state_member(const Layout *l, const Tensor *state); /* "exp_avg" of it */
const char *c_name(Arena *arena, const char *name); /* "/h.0/attn/MatMul" -> "h_0_attn_matmul" */
const char *upper(Arena *arena, const char *name);

/* Text of an expression: dims by their names, with a prefix ("d->") where they are members. */
const char *expr_c(const Layout *layout, Expr *e, const char *prefix);
const char *shape_comment(const Layout *layout, const Value *v); /* (batch, seq, 64) */

/* ---- one program ---- */
typedef struct Buffer {
    const char *c;      /* pointer's name in the step; the enumerator is PROGRAM_ and this in capitals */
    const char *type;   /* of an element in C */
    const char *in_step; /* the type that the step declares: that of a scratch buffer's parts where they have one; NULL: type */
    const char *shape;  /* for readers */
    const char *source; /* node that makes it */
    Expr *bytes;
    int first, last; /* positions in the list of launches, both included */
    int shares;      /* of a unit taken apart (apart.c): the earlier buffer in whose memory it lies; -1 */
} Buffer;

typedef struct Place {   /* where a value lies */
    const char *pointer; /* C name of a pointer to its first element */
    int buffer;          /* -1: weight or state */
} Place;

typedef enum { ITEM_LAUNCH, ITEM_COMMIT, ITEM_FINITE, ITEM_SAVE, ITEM_LATE, ITEM_LOOP, ITEM_WHILE, ITEM_BRANCH } ItemKind;
typedef struct Item Item;
typedef VEC(Item *) Items;
typedef struct Local { /* a pointer that moves with a loop: one slice an iteration */
    const char *name, *type, *base, *shape;
    Expr *stride; /* elements */
} Local;
struct Item {
    ItemKind kind;
    int position;     /* LAUNCH, COMMIT, FINITE: in the list of launches */
    const char *role; /* of the operation it comes from */
    const Launch *launch;
    VEC(const char *) nodes; /* of the model, that the launch computes */
    bool in_place;           /* LAUNCH: a result lies where an operand lay */
    const char *scratch;     /* pointer to the launch's scratch memory */
    const char *scratch_type; /* to what it points: "char" where its parts differ */
    const Place *place;      /* COMMIT: loss; FINITE: the largest gradient; SAVE: gradient; LATE: count; WHILE, BRANCH: condition */
    const char *type;        /* of an element there */
    int weight;              /* SAVE */
    Expr *bytes;             /* SAVE */
    Expr *late;              /* LATE: the symbol learnt, or the size that must have been found */
    Expr *length;            /* LOOP: iterations */
    const char *counter;     /* LOOP, WHILE: C name */
    bool reverse;
    const char *block;      /* LOOP over blocks of rows: C name of the dim that is a block's rows; counter: its first row */
    const char *later;      /* LAUNCH: counter of the loop over blocks around it */
    const Place *iteration; /* WHILE: where the body reads the iteration's number; NULL: it does not */
    const Place *again;     /* WHILE: condition after an iteration */
    const char *source;
    VEC(Local) locals;
    Items body[2], after; /* after: WHILE: copies of the carries, once the condition was read */
};
typedef struct ProgramOutput {
    const char *name;
    const Value *value;
    int buffer;
} ProgramOutput;
/* A few launches that belong together, and what they touch: buffers, weights, states. */
typedef enum { TOUCHES_BUFFER, TOUCHES_WEIGHT, TOUCHES_STATE } TouchKind;
typedef struct Touch {
    TouchKind kind;
    int index;
} Touch;
typedef VEC(Touch) Touches;
typedef struct Unit {
    const Group *group;        /* what it computes */
    int first, last;           /* launches */
    int first_item, last_item; /* in Program.items */
    bool again;                /* may be run a second time: the same results in the same places, nothing else */
    Touches reads, writes;
    Expr *flops, *moved;
    const char *source;
    Items again_items; /* RECIPE: its launches */
    int of;            /* RECIPE: unit of which it makes some results again, from the others; first and last are -1 */
} Unit;
/* Between two uses of a buffer its memory may serve others, where its content can be made again. */
typedef struct Point {
    int buffer;
    int gone, back; /* units */
    int maker;      /* unit */
    int settled;    /* unit from which on the buffer stays where it is until it goes: the maker, or where an earlier point brought it back */
    const char *recipe;
    bool offload; /* large and long away: the step can copy it to the host and back instead */
} Point;
typedef struct Program {
    const char *name; /* "train" */
    Graph *graph;
    Items items;
    VEC(Buffer) buffers;
    int *input_buffer;                             /* beside layout->inputs; -1 */
    int *reads_weight, *reads_state, *reads_hyper; /* beside the layout's: whether the step mentions it */
    VEC(ProgramOutput) outputs;
    int positions, kernels; /* launches, commit among them; kernels alone */
    Expr *moved, *flops, *least;
    Pointers *places; /* Value -> Place */
    VEC(Unit) units, recipes;
    VEC(Point) points;
    VEC(const char *) library; /* plans for the controller to start from */
} Program;

/* The launches of every group, in order; adds their kernels to k.  Before layout_name. */
typedef struct Launches Launches;
Launches *launches_of(Arena *arena, Kernels *k, Symbols *symbols, const Groups *groups);
void launches_kernels(const Launches *launches, Map *names); /* adds the names of kernels and library functions */
bool program_plans(const Program *p); /* it changes weights, and makes values again as budgets want: "train", "train_lean" */
Program *program_make(Layout *layout, const char *name, const Groups *groups, const Launches *launches);
const Place *program_place(const Program *p, const Value *v);
int program_all_units(const Program *p); /* units, then recipes */
Unit *program_unit(const Program *p, int u);
#endif
