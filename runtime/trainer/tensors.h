/* Tensors in host memory: names and bytes of dtypes, conversions, and the batch as the trainer hands it on. */
#ifndef TENSORS_H
#define TENSORS_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "../controller/controller.h"

enum { DTYPES = BOOL + 1 };
const char *dtype_name(int dtype);           /* "float32"; of -1: "unknown" */
const char *dtype_short_name(int dtype);     /* "F32", as safetensors writes it */
int dtype_from_short_name(const char *name); /* -1: unknown */
size_t dtype_bytes(int dtype);
bool dtype_is_float(int dtype);

/* Product of dims; -1 if a dim is negative or the product passes 2^62. */
int64_t count_of(int rank, const int64_t *dims);
/* "[2, 7]" */
const char *dims_text(int rank, const int64_t *dims, char *out, size_t size);

/* How a tensor in a file may serve where another dtype is wanted. */
typedef enum {
    BECOMES_NOT,
    BECOMES_SAME,
    BECOMES_WIDER,   /* no value changes */
    BECOMES_ROUNDED, /* float64 or float16 as float32: worth a notice */
} Becomes;
Becomes dtype_becomes(int from, int to);
/* n elements; only where dtype_becomes allows it. */
void tensor_convert(void *to, int to_dtype, const void *from, int from_dtype, int64_t n);
double element_as_double(const void *data, int dtype, int64_t i);

/* One input of a batch.  present: false where the program does not read it and the data lacks it. */
typedef struct {
    bool present;
    int dtype; /* of data: the model's, or one that does not become it; then the batch contradicts the model */
    int rank;
    int64_t dims[MAX_RANK];
    void *data; /* owned by the batch */
    size_t bytes, capacity;
} BatchInput;
typedef struct {
    int64_t number; /* which batch of the stream, from 0 */
    int n_inputs;
    BatchInput *inputs; /* beside Model.inputs */
} Batch;
int batch_create(Batch *batch, const Model *m); /* 0, or -1 without memory */
void batch_destroy(Batch *batch);
int batch_reserve(BatchInput *input, size_t bytes); /* 0, or -1 without memory */
#endif
