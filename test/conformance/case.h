/* One of ONNX's node tests, on its way to a program: what of it is constant, what varies. */
#ifndef CASE_H
#define CASE_H
#include <stdbool.h>

enum { CASE_INPUTS = 64, CASE_AXES = 8 };
typedef struct Case {
    const char *name;             /* test_add */
    const char *from, *to;        /* folders: model.onnx and test_data_set_0; what is written */
    int n_inputs;                 /* graph inputs of the model that are not initializers */
    bool is_integer[CASE_INPUTS]; /* integers and bool */
    int rank[CASE_INPUTS];
    int dims[CASE_INPUTS][CASE_AXES];    /* of the test's data */
    bool frozen[CASE_INPUTS];            /* given to the model as an initializer */
    bool varies[CASE_INPUTS][CASE_AXES]; /* a symbol, whatever the model's file says; else as in the file */
    bool gradients;                      /* of a loss by all float inputs, in place of the outputs (gradients.h) */
    char op[40];                         /* the operator that the test is about */
} Case;

/* Fills n_inputs, is_integer, rank, dims and op.  Errors of the files end the process, as everywhere in the generator. */
void case_read(Case *c);

/* Generates the test's inference program into c->to: model.h, model.cu, controller.c, weights.safetensors; and for the runner
 * inputs.safetensors, wanted.safetensors, and table.h, the test's row.  Returns false where what the graph says of its dims does
 * not hold for the test's own (a dim of 1 that is broadcast).  What the generator does not support ends the process with its
 * message. */
bool case_write(const Case *c);
#endif
