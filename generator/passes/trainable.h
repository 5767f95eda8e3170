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
/* "; near are "a", "b"", or "" */
const char *near_candidates(Decision *d, const char *wrong);

/* ---- exporter.c ---- */
/* The parameter that PyTorch's dynamo exporter says is the node's input, "p_emb_weight"; NULL where it says none. */
const char *exporter_parameter(Arena *arena, const OnnxNode *node, int input);
/* What the exporter lost or left out, with the line that keeps it. */
void exporter_notes(const OnnxModel *model, const Options *options, Arena *arena);
#endif
