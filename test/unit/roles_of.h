/* For tests of pass_trainable: a model of a few lines, and the whole table that comes out, or what is said.  Include it after the headers of cmocka. */
#ifndef ROLES_OF_H
#define ROLES_OF_H
#include <string.h>
#include "passes/passes.h"
#include "support/diag.h"
#include "test/support/model.h"

static Arena *arena;
static Map *tensors;
static const OnnxModel *last_model;

static inline int setup(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}
static inline int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static inline const char *run(const char *text, const Options *options)
{
    OnnxModel *model = model_from_text(arena, text);
    tensors = map_new(arena);
    last_model = model;
    return pass_trainable(model, options, arena, tensors);
}

/* A line of the table as tests write it, type and padding left out: train w weight of "m" (MatMul) */
static inline const char *short_line(const char *line)
{
    const char *name = strchr(line, '"') + 1, *end = strchr(name, '"'), *reason = strchr(strchr(end, '['), ']');
    reason += 1 + strspn(reason + 1, " ");
    return arena_text(arena, "%.*s %.*s %.*s", (int)strcspn(line, " "), line, (int)(end - name), name, (int)strcspn(reason, "\n"),
                      reason);
}

static inline const char *short_table(const char *table)
{
    Buf out = {.arena = arena};
    for (const char *at = table; *at; at = strchr(at, '\n') + 1)
        if (*at != '#') buf_printf(&out, "%s\n", short_line(at));
    return buf_text(&out);
}

static inline void wants_with(Options options, const char *model, const char *table)
{
    const char *found = short_table(run(model, &options));
    if (strcmp(found, table)) fail_msg("wanted:\n%sfound:\n%s", table, found);
}
static inline void wants(const char *model, const char *table)
{
    wants_with((Options){0}, model, table);
}

/* ---- what is said ---- */
typedef struct Case {
    const char *model;
    Options options;
} Case;
static inline void run_case(void *with)
{
    const Case *c = with;
    run(c->model, &c->options);
}
static inline void says(Options options, const char *model, int status, const char *text)
{
    int found;
    const char *said = said_by(arena, run_case, &(Case){model, options}, &found);
    if (strcmp(said, text)) fail_msg("wanted:\n%sfound:\n%s", text, said);
    assert_int_equal(found, status);
}

#define LINEAR "in x f32 batch,4\nw w 4,4 random\nMatMul m: x w -> h\n"
#endif
