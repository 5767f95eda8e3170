/* Sequences and optionals of node tests, as lists of tensors. */
#ifndef LISTS_H
#define LISTS_H
#include "onnx/model.h"

typedef struct List {
    OnnxTensor **at;
    int n;
    bool is_sequence, is_absent;
} List;
/* A file of the kind that info says: TensorProto, SequenceProto or OptionalProto. */
List list_read(Arena *arena, const char *path, const OnnxValueInfo *info);
/* Makes input i of the model, a sequence or optional, as many tensors as the list has, NAME.0 and so on, and a node that joins
 * them: the length is known from then on.  Returns how many inputs stand in its place. */
int list_to_inputs(OnnxModel *model, int i, const List *list);
#endif
