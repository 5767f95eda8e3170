/* Inside of `trainable`: the candidates while it is decided what becomes of them. */
#ifndef PASSES_TRAINABLE_H
#define PASSES_TRAINABLE_H
#include "passes/passes.h"
#include "passes/roles.h"

typedef struct Decision {
    Arena *arena;
    OnnxModel *model;
    const Options *options;
    Candidates list;
    Map *by_name; /* a name of the model or NAME#node -> the Candidate that it trains with */
    Map *tensors; /* for the importer: name -> Tensor */
} Decision;

/* ---- tie.c: by rewriting the nodes that read ---- */
void separate_merged(Decision *d); /* --untie, --tie NAME */
void tie_asked(Decision *d);       /* --tie A=B */
void tie_equal(Decision *d);
/* b's readers read value, which is made of a; how: where in a its elements are. */
void tie_as(Decision *d, Candidate *a, Candidate *b, const char *value, OnnxStored how);
/* Layers that were made as copies of one another and are still untrained.  as_they_lie: neither is turned nor a part. */
bool are_copies_of_a_layer(Decision *d, const Candidate *a, const Candidate *b, bool as_they_lie);
void tie_say(const Decision *d, const char *text);
void model_add_initializer(Decision *d, OnnxTensor *tensor);
/* A node that reads initializers alone may stand first; one that stands in the graph already moves there. */
void model_put_first(Decision *d, OnnxNode *node);

/* ---- notes.c ---- */
void candidate_notes(Decision *d);

/* ---- parts.c ---- */
void tie_parts(Decision *d);
/* "; near are "a", "b"", or "" */
const char *near_candidates(Decision *d, const char *wrong);

/* ---- exporter.c ---- */
/* The parameter that PyTorch's dynamo exporter says is the node's input, "p_emb_weight"; NULL where it says none. */
const char *exporter_parameter(Arena *arena, const OnnxNode *node, int input);
/* Whether the modules that the nodes belong to differ in numbers alone: layers.0.linear1 and layers.1.linear1; not in how often
 * one was called, /block_1 and /block_2. */
bool exporter_numbers_apart(Arena *arena, const OnnxNode *a, const OnnxNode *b);
/* Whether they belong to modules that are known, and others. */
bool exporter_modules_differ(Arena *arena, const OnnxNode *a, const OnnxNode *b);
/* What the exporter lost or left out, with the line that keeps it. */
void exporter_notes(const OnnxModel *model, const Options *options, Arena *arena);
#endif
