/* Batches: cut from a file of samples (--data), or ready-made (--batch-file).  A batch is a function of its number alone, so that a
 * run can be resumed at any step: --data shuffles each pass anew, by the seed and the number of the pass. */
#ifndef DATA_H
#define DATA_H
#include "files.h"
#include "tensors.h"

typedef struct {
    const Model *model;
    TensorFile file;
    bool *wanted;         /* beside Model.inputs: the program reads it, or dims are bound by it */
    FileTensor **tensors; /* --data: beside Model.inputs; --batch-file: n_inputs for each step; NULL: not wanted and not there */
    bool ready;           /* --batch-file */
    bool whole;           /* --data without a batch dim: the file is one batch */
    bool shuffle;
    int64_t n_samples, batch_size, n_batches; /* n_batches: of one pass */
    uint64_t seed;
    int64_t *order, order_of; /* permutation of samples, and the pass that it is for */
} Data;

typedef struct {
    const char *path; /* a file, or a folder of input_<n>.pb */
    bool ready, shuffle;
    bool whole;         /* not cut into samples: the file is one batch */
    int64_t batch_size; /* 0: default */
    uint64_t seed;
} DataOptions;
/* Checks names, ranks and dtypes of the whole file.  program: whose inputs must be there. */
int data_open(Data *data, const Model *m, const Program *program, const DataOptions *options, Fault *fault);
void data_close(Data *data);
int data_batch(Data *data, int64_t number, Batch *batch, Fault *fault);
/* Ranks and dims of batch `number`, without its content. */
void data_shapes(const Data *data, int64_t number, Arrived *arrived);
#endif
