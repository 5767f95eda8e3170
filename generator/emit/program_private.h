/* Shared by the files that make a program: program.c (groups in order), launches.c, places.c, units.c, region.c. */
#ifndef PROGRAM_PRIVATE_H
#define PROGRAM_PRIVATE_H
#include "emit/program.h"

typedef struct Sliced { /* a group cut down to some of its results, and its launches */
    Group *group;
    GroupLaunches launches;
} Sliced;

typedef struct GradientOf {
    VEC(const char *) weights;
} GradientOf;

/* A sum of many expressions, most of them equal: each is multiplied by how often it came, and added once. */
typedef struct Sum {
    Expr *so_far;
    Pointers *times; /* expression -> how often it is still to be added */
    VEC(Expr *) terms;
} Sum;
Sum sum_new(const Layout *l);
void sum_add(const Layout *l, Sum *sum, Expr *e);
Expr *sum_total(const Layout *l, Sum *sum); /* more may be added behind it */

typedef struct Maker { /* a program while it is made */
    Layout *l;
    Program *p;
    const Launches *launches;
    Map *names;            /* of the step's locals */
    bool nameless;         /* values bear the names of their operations alone: alike groups give the same text */
    Map *last_of;          /* "role source" -> the last operation that has them */
    Pointers *gradient_of; /* value -> GradientOf */
    Pointers *root;        /* value -> the value in whose memory it lies, where that is another */
    Pointers *last_reader; /* root -> the last group that reads it; NULL: must be kept */
    VEC(int) touched;      /* buffers that the unit in work touches, some more than once */
    int loops;             /* around what is being added */
    const char *row;       /* counter of the loop over blocks of rows around what is being added; NULL */
    Expr *block, *rows;    /* of that loop: the dim that is a block's rows, all rows */
    Expr *times;           /* how often what is being added runs in a step */
    Sum moved, flops;      /* of all launches so far */
} Maker;

struct Launches {
    Pointers *of;     /* Group -> GroupLaunches */
    Pointers *sliced; /* Group -> Sliced */
    VEC(const GroupLaunches *) list;
};

void touch(Maker *m, int buffer, int position); /* the buffer is alive then */
Place *place_new(Maker *m, const Value *v, const char *pointer, int buffer);
Place *own_buffer(Maker *m, const Value *v);
Item *item_new(Maker *m, Items *items, ItemKind kind, const Op *op);
Item *add_launch(Maker *m, Items *items, const Launch *launch, const Op *op, const char *scratch, int scratch_buffer);
void add_copy(Maker *m, Items *items, Value *dst, Value *src, const Op *op);
void name_nodes(Maker *m, Item *item, const Group *group);
void add_groups(Maker *m, Items *items, const Groups *groups);
void add_region(Maker *m, Items *items, const Group *group);

/* ---- places.c ---- */
void find_last_ops(Maker *m, const Graph *g);
void place_inputs(Maker *m);
int scratch_new(Maker *m, Expr *bytes, const char *for_what);
void find_last_readers(Maker *m, const Groups *groups);
bool place_result(Maker *m, const Group *group, const Value *out); /* true: in the memory of an operand */

/* ---- units.c ---- */
void add_unit(Maker *m, const Group *group, Unit unit, int buffers_before, Expr *flops, Expr *moved); /* the last two: of the program before it */
void add_recipe(Maker *m, const Group *group, int of);
#endif
