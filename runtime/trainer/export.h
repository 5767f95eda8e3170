/* Trained weights as an ONNX model.  skeleton.onnx, beside the program, is the model as it came, in which tensors that the program keeps
 * stand without data: instead of a place in another file they have the name of a weight.  They are filled in; all else stays as it is. */
#ifndef EXPORT_H
#define EXPORT_H
#include "session.h"

enum { EXPORT_MOST = INT32_MAX }; /* bytes of a file that protobuf's readers take */
typedef struct {
    const char *path;
    int64_t most;   /* a larger file does not hold the data of large tensors: it lies beside it, in path with ".data" */
    bool inference; /* BatchNormalization takes the running statistics, Dropout passes all on; else they are as they came */
} ExportOptions;
/* The type of each tensor is the model's. */
int session_export(Session *session, const char *skeleton, const ExportOptions *options, Fault *fault);
#endif
