/* Compiles and loads unfused.cu.  Needs: make and a compiler, or the file from an earlier run.  Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include "fallback.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "compile.h"

enum { COMPILE_SECONDS = 900 };

struct Fallback {
    const char *folder, *device;
    void *library;
    bool asked;
    char why[400];
};

Fallback *fallback_create(const char *folder, const char *device)
{
    Fallback *f = calloc(1, sizeof *f);
    if (f) *f = (Fallback){.folder = folder, .device = device};
    return f;
}

void fallback_destroy(Fallback *fallback)
{
    if (!fallback) return;
    if (fallback->library) dlclose(fallback->library);
    free(fallback);
}

static void load(Fallback *f)
{
    char path[4300];
    Compile compile = {.folder = f->folder, .device = f->device, .target = "variants/unfused.so", .limit = COMPILE_SECONDS};
    compile_target(&compile, NULL, NULL, f->why, sizeof f->why);
    if (f->why[0]) return;
    snprintf(path, sizeof path, "%s/variants/unfused.so", f->folder);
    f->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!f->library) snprintf(f->why, sizeof f->why, "it cannot be loaded: %.300s", dlerror());
}

UnitApart *fallback_unit(Fallback *fallback, const Program *program, char *why, size_t size)
{
    Fallback *f = fallback;
    char name[64];
    UnitApart *unit = NULL;
    if (!f->asked) load(f);
    f->asked = true;
    snprintf(name, sizeof name, "%s_apart", program->name);
    if (f->library) *(void **)&unit = dlsym(f->library, name);
    snprintf(why, size, "%s", unit || f->why[0] ? f->why : "there is no such step in it");
    return unit;
}
