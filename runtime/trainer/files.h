/* Files of named tensors, read: safetensors, npz, npy, ONNX TensorProto; and safetensors, written.
 *
 * A file is opened whole but its data is brought in when asked for.  Opening fails only on what is wrong with the file; a tensor
 * that this program cannot use (float8, Fortran order, rank 9) stands in the list with its reason, and is refused when it is
 * wanted. */
#ifndef FILES_H
#define FILES_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "../controller/controller.h"
#include "fault.h"

typedef struct {
    const char *name;
    int dtype; /* Dtype, or -1 */
    int rank;
    int64_t dims[MAX_RANK];
    size_t bytes;
    const void *data;     /* NULL until tensor_data */
    const char *unusable; /* why it cannot be used, or NULL */
    const char *path;     /* the file that holds it */
    int64_t entry;        /* of an archive */
    size_t skip;          /* bytes of header before the data */
} FileTensor;

typedef struct {
    const char *path;
    FileTensor *tensors; /* sorted by name */
    int n, capacity;
    const char **keys, **values; /* safetensors' __metadata__ */
    int n_metadata;
    void *map;
    size_t map_bytes;
    int mapped; /* the descriptor of what is mapped, if anything is */
    void *archive; /* zip_t */
    void **owned;
    int n_owned, owned_capacity;
} TensorFile;

/* PATH of a file of any kind, told by its content; or "name=FILE.npy,name=FILE.npy".  On failure nothing is left to close. */
int tensor_file_open(TensorFile *file, const char *path, Fault *fault);
void tensor_file_close(TensorFile *file);
FileTensor *tensor_find(const TensorFile *file, const char *name); /* NULL: not there */
const char *tensor_metadata(const TensorFile *file, const char *key);
int tensor_data(TensorFile *file, FileTensor *tensor, Fault *fault); /* brings data in, or says why it cannot be used */

/* For the readers. */
void *file_own(TensorFile *file, size_t bytes); /* freed at close; NULL without memory */
char *file_copy_text(TensorFile *file, const char *text, size_t length);
FileTensor *file_add(TensorFile *file);                         /* NULL without memory */
int file_finish(TensorFile *file, Fault *fault);                /* sorts, refuses a name that stands twice */
int file_open(FILE **out, const char *path, Fault *fault);      /* to be read; a file, not a folder or a pipe */
int file_map(TensorFile *file, const char *path, Fault *fault); /* file->map, map_bytes */
void file_unmap(TensorFile *file);

int safetensors_read(TensorFile *file, Fault *fault); /* of a mapped file */
int npz_read(TensorFile *file, Fault *fault);         /* opens file->path */
int npz_load(TensorFile *file, FileTensor *tensor, Fault *fault);
void npz_close(TensorFile *file);
int npy_read(TensorFile *file, const char *name, const char *path, Fault *fault);
int npy_header(FileTensor *tensor, const unsigned char *bytes, size_t size,
               Fault *fault); /* name, path set; writes the rest, skip included */
int onnx_folder_read(TensorFile *file, const char *folder, const Model *m,
                     Fault *fault); /* input_<n>.pb named as the model's nth input */

/* ---- written aside, synced, renamed: a reader sees the old file or the new one ---- */
typedef struct {
    char *path, *aside; /* aside NULL: written in place, as into a device or pipe */
    FILE *out;
} FileWriter;
int file_writer_open(FileWriter *writer, const char *path, Fault *fault);
int file_writer_write(FileWriter *writer, const void *data, size_t bytes, Fault *fault);
int file_writer_commit(FileWriter *writer, Fault *fault); /* the file stands under its name */
void file_writer_abandon(FileWriter *writer);             /* after a failure: nothing is left behind; harmless after commit */

typedef struct {
    const char *name;
    int dtype, rank;
    int64_t dims[MAX_RANK];
} Entry;
/* Writes the header; the data of the entries must follow in their order. */
int safetensors_begin(FileWriter *writer, const Entry *entries, int n, const char *const *keys, const char *const *values,
                      int n_metadata, Fault *fault);
#endif
