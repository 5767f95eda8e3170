/* What a batch looks like before anything runs: ranks, dims, and of its content the lowest, the highest, how many count, whether
 * all is finite. */
#ifndef ARRIVAL_H
#define ARRIVAL_H
#include "tensors.h"

/* Fills arrived (beside Model.inputs).  An input that is not present arrives with rank 0 and nothing counted;
 * of one of another dtype only the shape is read. */
void arrival_read(const Model *m, const Batch *batch, Arrived *arrived);
/* n floats of that dtype: none is a NaN or infinity. */
bool floats_finite(int dtype, const void *data, int64_t n);
#endif
