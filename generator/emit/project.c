/* From graphs to the folder: fuses, schedules, gives names, writes the files.  The graphs' expressions become canonical first, so
 * that dims stated equal bear one name everywhere. */
#include "emit/apart.h"
#include "emit/controller.h"
#include "emit/embed.h"
#include "emit/folder.h"
#include "emit/plans.h"
#include "emit/report.h"
#include "emit/step.h"
#include "emit/template.h"
#include "passes/rematerialize.h"
#include "support/diag.h"
#include "support/json.h"
#include "support/path.h"
#include <string.h>

enum { PROGRAMS_MAX = 4 };

/* ---- weights ---- */
static void json_shape(Json *json, const Tensor *t)
{
    json_array_inline(json, "shape");
    for (int k = 0; k < t->rank; k++) json_int(json, NULL, t->dims[k]);
    json_close(json);
}

static size_t tensor_bytes(const Tensor *t)
{
    size_t bytes = (size_t)dtype_bytes(t->dtype);
    for (int k = 0; k < t->rank; k++) bytes *= (size_t)t->dims[k];
    return bytes;
}

/* Length of the header in 8 bytes, little-endian; the header, JSON padded with spaces; the tensors one after another. */
void folder_tensors(Folder *folder, const char *file, Arena *arena, const Tensor *const *tensors, int n)
{
    Buf header = {.arena = arena};
    Json json = json_begin(&header);
    int64_t at = 0;
    json_object_inline(&json, NULL);
    for (int i = 0; i < n; i++) {
        const Tensor *t = tensors[i];
        int64_t bytes = (int64_t)tensor_bytes(t);
        json_object_inline(&json, t->name);
        json_text(&json, "dtype", upper(arena, dtype_name(t->dtype)));
        json_shape(&json, t);
        json_array_inline(&json, "data_offsets");
        json_int(&json, NULL, at);
        json_int(&json, NULL, at + bytes);
        json_close(&json);
        json_close(&json);
        at += bytes;
    }
    json_close(&json);
    while (header.length && header.text[header.length - 1] == '\n') header.text[--header.length] = 0;
    while (header.length % 8) buf_put(&header, " ");
    uint8_t size[8];
    for (int i = 0; i < 8; i++) size[i] = (uint8_t)((uint64_t)header.length >> (8 * i));
    folder_begin(folder, file);
    folder_append(folder, size, sizeof size);
    folder_append(folder, buf_text(&header), header.length);
    for (int i = 0; i < n; i++) folder_append(folder, tensors[i]->data, tensor_bytes(tensors[i]));
    folder_end(folder);
}

static void write_weights(Folder *folder, const Layout *l)
{
    const Tensor **with_data = NEW_ARRAY(l->arena, const Tensor *, l->weights.n + 1);
    int n = 0;
    for (int i = 0; i < l->weights.n; i++)
        if (l->weights.at[i].tensor->data) with_data[n++] = l->weights.at[i].tensor;
    folder_tensors(folder, "weights.safetensors", l->arena, with_data, n);
}

/* What --export fills in. */
static void write_skeleton(Folder *folder, const Project *project, const Layout *l)
{
    Map *kept = map_new(l->arena);
    uint8_t *bytes;
    size_t size;
    for (int i = 0; i < l->weights.n; i++) map_set(kept, l->weights.at[i].tensor->name, l->arena);
    const bool wanted = project->model && !project->options->inference;
    const char *why = wanted ? onnx_skeleton(project->model, kept, &bytes, &size) : NULL;
    if (why) notice("the trainer will write no ONNX file (--export): %s", why);
    if (wanted && !why)
        folder_bytes(folder, "skeleton.onnx", bytes, size);
    else
        folder_without(folder, "skeleton.onnx");
}

/* ---- files ---- */
static void write_runtime(Folder *folder)
{
    for (const EmbeddedFile *f = embedded_files; f->path; f++)
        if (strncmp(f->path, "runtime/", 8) == 0) folder_bytes(folder, f->path, f->at, (size_t)(f->end - f->at));
}

/* The text of a file is needed only until it is written. */
typedef const char *TextOf(const Project *project, const Layout *layout, Program *const *programs, int n, const char *kernels);

static void write_text(Folder *folder, const char *name, TextOf *text_of, const Project *project, const Layout *layout,
                       Program *const *programs, int n, const char *kernels)
{
    Layout brief = *layout;
    brief.arena = arena_new();
    const char *text = text_of(project, &brief, programs, n, kernels);
    if (*text)
        folder_text(folder, name, text);
    else
        folder_without(folder, name);
    arena_free(brief.arena);
}

static const char *text_of_header(const Project *project, const Layout *layout, Program *const *programs, int n,
                                  const char *kernels)
{
    (void)kernels;
    return model_h(project, layout, programs, n);
}

static const char *text_of_tables(const Project *project, const Layout *layout, Program *const *programs, int n,
                                  const char *kernels)
{
    (void)kernels;
    return controller_c(project, layout, programs, n);
}

static void write_unfused(Folder *folder, const Project *project, const Layout *layout, Program *const *programs, int n, const Kernels *kernels,
                          const Apart *apart)
{
    Layout brief = *layout;
    brief.arena = arena_new();
    folder_text(folder, "unfused.cu", unfused_cu(project, &brief, kernels_text(kernels), apart_text(apart, &brief, programs, n)));
    arena_free(brief.arena);
}

static void write_report(Folder *folder, const Project *project, const Layout *layout, Program *const *programs,
                         const Groups *const *groups, int n)
{
    Layout brief = *layout;
    brief.arena = arena_new();
    folder_text(folder, "report.html", report_html(project, &brief, programs, groups, n));
    arena_free(brief.arena);
}

/* "T(float) T(int64_t)": the types that the model multiplies; float always, which 16-bit floats are summed as. */
static const char *multiplied(Arena *arena, const Kernels *kernels, bool only_short)
{
    Buf out = {.arena = arena};
    for (int d = 0; d < DTYPES_COUNT; d++) {
        const bool is_short = d == DTYPE_f16 || d == DTYPE_bf16;
        if (only_short ? is_short && kernels_multiply(kernels, d) : d == DTYPE_f32 || kernels_multiply(kernels, d))
            buf_printf(&out, "%sT(%s)", out.length ? " " : "", dtype_c(d));
    }
    return buf_text(&out);
}

static void write_folder(const Project *project, const Layout *named, Program *const *programs, const Groups *const *groups, int n,
                         const Kernels *all, const Kernels *unfused, const Apart *apart)
{
    const char *kernels = kernels_text(all);
    Arena *arena = named->arena;
    Buf source = {.arena = arena};
    comment_put(&source, file_name(project->options->model));
    const Hole holes[] = {{"MODEL", buf_text(&source)},
                          {"PROGRAM", project->options->inference ? "runner" : "trainer"},
                          {"TYPES", multiplied(arena, all, false)},
                          {"SHORT_TYPES", multiplied(arena, all, true)}};
    const int n_holes = sizeof holes / sizeof *holes;
    Folder *folder = folder_open(arena, project->options->out);
    const Bindings bindings = bindings_make(named);
    const Guards guards = guards_make(project, named, &bindings, programs, n);
    Layout guarded = *named, *layout = &guarded;
    guarded.guards = &guards;
    write_text(folder, "model.h", text_of_header, project, layout, programs, n, kernels);
    write_text(folder, "model.cu", model_cu, project, layout, programs, n, kernels);
    write_text(folder, "lean.h", lean_h, project, layout, programs, n, kernels);
    write_text(folder, "controller.c", text_of_tables, project, layout, programs, n, kernels);
    if (apart)
        write_unfused(folder, project, layout, programs, n, unfused, apart);
    else
        folder_without(folder, "unfused.cu");
    if (!project->tables_alone) {
        folder_text(folder, "main.c", template_fill(arena, "templates/main.c", holes, n_holes));
        folder_text(folder, "Makefile", template_fill(arena, "templates/Makefile", holes, n_holes));
        write_runtime(folder);
        if (project->options->no_report)
            folder_without(folder, "report.html");
        else
            write_report(folder, project, layout, programs, groups, n - (project->lean != NULL));
    }
    if (project->trainable_table && !project->options->inference) folder_text(folder, "trainable.txt", project->trainable_table);
    write_weights(folder, layout);
    if (!project->tables_alone) write_skeleton(folder, project, layout);
    folder_commit(folder);
}

void emit_project(const Project *project, Arena *arena, Symbols *symbols)
{
    Graph *graphs[PROGRAMS_MAX] = {project->train, project->evaluate, project->infer, project->lean};
    const char *names[PROGRAMS_MAX] = {"train", "evaluate", "infer", "train_lean"};
    Groups *groups[PROGRAMS_MAX];
    Launches *launches[PROGRAMS_MAX];
    Program *programs[PROGRAMS_MAX];
    Kernels *kernels = kernels_new(arena, symbols), *plain = kernels_new(arena, symbols);
    kernels_one_by_one(plain);
    Apart *apart = project_falls_back(project) ? apart_new(arena, plain) : NULL;
    Layout *layout = layout_new(arena, symbols);
    Map *kernel_names = map_new(arena);
    int n = 0;
    for (int i = 0; i < PROGRAMS_MAX; i++) {
        if (!graphs[i]) continue;
        graph_canonical(graphs[i]);
        groups[n] = pass_fuse(graphs[i], project->options->no_fuse);
        groups[n]->as_given = project->options->no_schedule;
        pass_schedule(groups[n]);
        launches[n] = launches_of(arena, kernels, symbols, groups[n]);
        if (apart && (graphs[i] == project->train || graphs[i] == project->lean)) apart_add(apart, symbols, groups[n], launches[n]);
        launches_kernels(launches[n], kernel_names);
        layout_add(layout, graphs[i]);
        names[n++] = names[i];
    }
    if (apart) apart_kernels(apart, kernel_names);
    const char **taken = NEW_ARRAY(arena, const char *, map_count(kernel_names) + 1);
    for (int i = 0; i < map_count(kernel_names); i++) taken[i] = map_key(kernel_names, i);
    layout_name(layout, taken, map_count(kernel_names));
    for (int i = 0; i < n; i++) programs[i] = program_make(layout, names[i], groups[i], launches[i]);
    for (int i = 0; i < n; i++)
        if (program_plans(programs[i])) pass_rematerialize(arena, symbols, programs[i]);
    find_plans(layout, programs, n);
    write_folder(project, layout, programs, (const Groups *const *)groups, n, kernels, plain, apart);
}
