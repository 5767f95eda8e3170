/* Attention as all its operators have it: scores, what may be looked at, softmax, values. */
#ifndef ONNX_ATTENTION_H
#define ONNX_ATTENTION_H
#include "onnx/formulas.h"

typedef struct Attending {
    Import *im;
    const OnnxNode *node;
    Value *q, *k, *v;      /* (batch, heads, time, size), (batch, kv heads, keys, size), (batch, kv heads, keys, value size) */
    double scale, softcap; /* softcap 0: none */
    Value *bias;           /* added to scores; broadcasts to (batch, heads, time, keys); NULL: none */
    Value *allowed;        /* bool, broadcasts likewise: which keys count; NULL: all */
    bool may_be_empty;     /* a query may have no key at all: its result is 0 */
    const OnnxGraph *score_mod, *prob_mod;        /* FlexAttention's: a graph over the scores, one over the probabilities */
    Value *raw, *capped, *biased, *probabilities; /* made on the way; biased has -inf where keys do not count */
} Attending;

/* (batch, heads, time, value size); fills raw, capped, biased and probabilities. */
Value *attend(Attending *a);
/* That q, k and v fit each other, or the user's error; states what makes them fit. */
void attention_check(const Attending *a);
/* Keys must be allowed by this mask too. */
void allow_only(Attending *a, Value *mask);
/* A mask of the user: bool, or floats to add in which -inf forbids a key. */
void add_mask(Attending *a, Value *mask);
/* Query i may look at key j where j <= i + offset (a scalar or (batch, 1, 1, 1) i64), and, where left or right are not -1,
 * i + offset - left <= j, j <= i + offset + right. */
void allow_window(Attending *a, Value *offset, bool causal, int64_t left, int64_t right);
/* (batch, time, heads * size) to (batch, heads, time, size) and back. */
Value *to_heads(Import *im, const OnnxNode *node, Value *v, int64_t heads, const char *what);
Value *from_heads(Graph *g, Value *v);
/* past and v along time; past may be NULL. */
Value *after_past(Import *im, const OnnxNode *node, Value *past, Value *v);
/* x (batch, heads, time, size) rotated by angles whose cosines and sines are (batch or 1, time, dims / 2), over its first dims. */
Value *rotate(Import *im, const OnnxNode *node, Value *x, Value *cosine, Value *sine, int64_t dims, bool interleaved);
#endif
