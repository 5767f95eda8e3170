/* Inside recognise: one attempt at one product.  recognise.c finds the pattern, recognise_scores.c what is done to the scores. */
#ifndef RECOGNISE_H
#define RECOGNISE_H
#include "passes/gradient.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

enum { ATTENTION_BYTES_MAX = 1024 }; /* of a head: what a block of CUDA has room for (device/attention.h) */
enum { NO = 1, YES };
enum { NOTHING = 1, SCORES }; /* what a value depends on */

typedef struct {
    Graph *g;
    Op *product;          /* probabilities x values */
    Op *scores;           /* queries x keys */
    Value *masked;        /* the operand of the softmax */
    Value *allowed;       /* which keys count, where a row without any gives 0; NULL: rows are never empty */
    Value *q, *k, *v;     /* as the operation takes them */
    double factor;        /* of the scores, that queries and keys were multiplied by */
    Ops ops;              /* what becomes part of the operation */
    Values captures;
    uint8_t *depends;     /* by value id */
    uint8_t *pure;        /* by value id: made of positions, constants and sizes alone : YES or NO */
    Value **inner;        /* by value id: what it is in the body */
    Graph *body;
    const bool *wanted;   /* by value id, up to `values`: wants a gradient; NULL: nothing does */
    int values;
    const char *why;      /* it looks like attention and is not taken; NULL: it does not even look so */
} Attend;

bool attend_no(Attend *a, const char *why); /* false */
bool attend_find_scores(Attend *a);         /* the first product, through elementwise operations */
Graph *attend_body(Attend *a);              /* fills captures; NULL where something stands against it */
#endif
