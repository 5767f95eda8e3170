/* Compiles and loads the unfused program.  Needs: make and a compiler, or the file from an earlier run.  Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include "fallback.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "compile.h"

enum { COMPILE_SECONDS = 900 };

struct Fallback {
    const Model *model;
    const char *folder, *device;
    Program program;
    void *library;
    bool asked;
    char why[400];
};

Fallback *fallback_create(const Model *m, const char *folder, const char *device)
{
    Fallback *f = calloc(1, sizeof *f);
    if (f) *f = (Fallback){.model = m, .folder = folder, .device = device};
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
    if (!f->model->unfused) {
        snprintf(f->why, sizeof f->why, "this program was generated without one");
        return;
    }
    compile_target(&compile, NULL, NULL, f->why, sizeof f->why);
    if (f->why[0]) return;
    snprintf(path, sizeof path, "%s/variants/unfused.so", f->folder);
    f->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    f->program = *f->model->unfused;
    if (f->library) *(void **)&f->program.run = dlsym(f->library, "unfused_step");
    if (!f->program.run) snprintf(f->why, sizeof f->why, "it cannot be loaded: %.300s", f->library ? "no step in it" : dlerror());
}

const Program *fallback_program(Fallback *fallback, const char **why)
{
    if (!fallback->asked) load(fallback);
    fallback->asked = true;
    *why = fallback->why;
    return fallback->why[0] ? NULL : &fallback->program;
}
