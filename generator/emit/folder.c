/* The folder that is written. */
#include "emit/folder.h"
#include "support/diag.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const char *aside, *name;
} Written;
struct Folder {
    Arena *arena;
    const char *path;
    VEC(Written) files;
    VEC(const char *) unwanted;
    FILE *file;
};

static void clean(const Folder *f)
{
    for (int i = 0; i < f->files.n; i++) unlink(f->files.at[i].aside);
}

static void cannot_write(Folder *f, const char *what, int error)
{
    if (f->file) fclose(f->file);
    clean(f);
    error_exit("%s: cannot be written: %s%s", what, strerror(error),
               error == ENOSPC  ? "; nothing was changed, make room and try again"
               : error == EFBIG ? "; nothing was changed, files may not be as large here: see ulimit -f"
                                : "");
}

static void make_folder(Folder *f, const char *path)
{
    struct stat is;
    if (stat(path, &is) == 0) {
        if (S_ISDIR(is.st_mode)) return;
        clean(f);
        error_exit("-o %s: wanted a folder, found a file; name another folder or remove the file", path);
    }
    const char *slash = strrchr(path, '/');
    if (slash && slash > path) make_folder(f, arena_copy(f->arena, path, (size_t)(slash - path)));
    if (mkdir(path, 0777) != 0 && errno != EEXIST) cannot_write(f, path, errno);
}

Folder *folder_open(Arena *arena, const char *path)
{
    Folder *f = NEW(arena, Folder);
    f->arena = arena;
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--;
    f->path = arena_copy(arena, path, length);
    make_folder(f, f->path);
    return f;
}

void folder_begin(Folder *f, const char *name)
{
    const char *full = arena_text(f->arena, "%s/%s", f->path, name), *slash = strrchr(full, '/');
    make_folder(f, arena_copy(f->arena, full, (size_t)(slash - full)));
    struct stat is;
    if (stat(full, &is) == 0 && S_ISDIR(is.st_mode)) cannot_write(f, full, EISDIR);
    const char *aside = arena_text(f->arena, "%s.part", full);
    f->file = fopen(aside, "wb");
    if (!f->file) cannot_write(f, full, errno);
    vec_push(f->arena, &f->files, ((Written){aside, full}));
}

void folder_append(Folder *f, const void *bytes, size_t n)
{
    if (n && fwrite(bytes, 1, n, f->file) != n) cannot_write(f, f->files.at[f->files.n - 1].name, errno);
}

void folder_end(Folder *f)
{
    FILE *file = f->file;
    f->file = NULL;
    if (fclose(file) != 0) cannot_write(f, f->files.at[f->files.n - 1].name, errno);
}

void folder_bytes(Folder *f, const char *name, const void *bytes, size_t n)
{
    folder_begin(f, name);
    folder_append(f, bytes, n);
    folder_end(f);
}

void folder_text(Folder *f, const char *name, const char *text)
{
    folder_bytes(f, name, text, strlen(text));
}

void folder_without(Folder *f, const char *name)
{
    vec_push(f->arena, &f->unwanted, arena_text(f->arena, "%s/%s", f->path, name));
}

void folder_commit(Folder *f)
{
    for (int i = 0; i < f->unwanted.n; i++)
        if (unlink(f->unwanted.at[i]) != 0 && errno != ENOENT) cannot_write(f, f->unwanted.at[i], errno);
    for (int i = 0; i < f->files.n; i++)
        if (rename(f->files.at[i].aside, f->files.at[i].name) != 0) cannot_write(f, f->files.at[i].name, errno);
}
