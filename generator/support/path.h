/* Paths as text. */
#ifndef SUPPORT_PATH_H
#define SUPPORT_PATH_H
#include <string.h>

/* "models/letters.onnx" -> "letters.onnx" */
static inline const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}
#endif
