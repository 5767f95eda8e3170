/* Shared by the files that write a step's text: step.c (the function), step_items.c (its statements), step_declare.c (what they name). */
#ifndef STEP_PRIVATE_H
#define STEP_PRIVATE_H
#include "emit/step.h"

enum { COMMENT_COLUMN = 100, LINE_MAX_COLUMNS = 118, FARTHEST_COLUMN = 140 };

/* A long size, or a quotient in sizes, that the text would say several times: a constant of the step, or of a loop over blocks of rows. */
typedef struct {
    const char *text, *name, *block; /* block: the dim that is such a loop's; NULL */
    const char *called;              /* by a kernel; NULL */
    int uses, order; /* order: of first use */
} Size;

typedef struct {
    const Layout *l;
    const Program *p;
    VEC(Size) sizes;
    Pointers *plain; /* while sizes are counted: what holds none that could have a name */
    const Map *memory;                                    /* C name -> Memory */
    Map *declared;                                        /* buffers that the text has so far */
    Buf body;                                             /* of the function, behind its declarations */
    const char *section, *scope;                          /* scope: the part of the model that the text is in */
    int unit;                                             /* begins with the next statement; -1: none does */
    bool committed, has_commit, checks, checked, replays; /* checks: gradients are found finite before anything is assigned */
    const Guards *guards;                                 /* of all programs */
    bool *known;                                          /* late dims, as the text reads them; by dim */
} Writer;

const char *commented(const Layout *l, const char *text); /* what may stand inside a comment */
const char *buffer_enum(const Writer *w, int buffer);     /* TRAIN_LOGITS */

/* ---- step_items.c ---- */
void section_text(Writer *w, const Item *item); /* "---- backward ----", where one begins */
void item_text(Writer *w, const Item *item, int depth);
const char *kept_flag(const Layout *l, const Value *target); /* of the weight that it is, or is a state of: "s->kept + WEIGHT_FC_BIAS" */

/* ---- step_sizes.c ---- */
void name_sizes(Writer *w);
const char *size_c(const Writer *w, Expr *e);             /* e in C, with what has a name by its name */
const char *with_sizes(const Writer *w, const char *text); /* the same of a text that was made already */
/* Those that depend on that dim of blocks (NULL: on none) and that the text names. */
void declare_sizes(Buf *out, const Writer *w, const char *block, const char *text, int depth);

/* ---- step_declare.c ---- */
Map *words(Arena *arena, const char *text); /* the names in a text of C */
Map *memory_of(const Layout *l, const Program *p);
void declare_dims(Buf *out, const Writer *w, const Map *used);
/* Of the names used those that are declared at the head of a function or, buffers, those that are not declared yet: before the item
 * that uses them first.  Costs as much as the text has words, not as the program has buffers: a replay is short. */
typedef enum { AT_HEAD, AT_FIRST_USE, ALL_AT_ONCE } Where;
void declare_memory(Buf *out, const Writer *w, const Map *used, Where where);
void declare_before(Writer *w,
                    size_t start); /* puts the declarations of buffers that the text from `start` on names first before it */
#endif
