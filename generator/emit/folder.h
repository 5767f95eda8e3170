/* Writing a folder so that nothing half-written ever stands under a final name: every file is written aside first, then all are
 * renamed. Errors of the disk are the user's: what was written aside is taken away again. */
#ifndef FOLDER_H
#define FOLDER_H
#include "ir/ir.h"
#include <stdio.h>

typedef struct Folder Folder;
Folder *folder_open(Arena *arena, const char *path);                  /* made where there is none, its parents too */
void folder_text(Folder *folder, const char *name, const char *text); /* "runtime/device/device.h": folders within are made */
void folder_bytes(Folder *folder, const char *name, const void *bytes, size_t n);
void folder_without(Folder *folder, const char *name); /* of an earlier run: gone when this one is there */
/* A file written piece by piece. */
void folder_begin(Folder *folder, const char *name);
void folder_append(Folder *folder, const void *bytes, size_t n);
void folder_end(Folder *folder);
/* A safetensors file; every tensor has its data. */
void folder_tensors(Folder *folder, const char *name, Arena *arena, const Tensor *const *tensors, int n);
void folder_commit(Folder *folder); /* gives all files their names */
#endif
