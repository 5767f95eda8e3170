/* Runs the node tests of a unit, each in a process of its own, and compares their outputs.
 *
 *     runner UNIT [gradients]     UNIT/NAME: weights.safetensors, inputs.safetensors, wanted.safetensors
 *
 * Prints a line a test, separated by tabs: name, "passed" or "failed", what was wrong; of gradients, which are compared with
 * differences, what was checked. */
#include "test/conformance/runner.h"
#include "test/conformance/runner_gradients.h"
#include "runtime/trainer/data.h"
#include "runtime/trainer/session.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS = 60 };
extern const ConformanceTest conformance_tests[];

typedef struct {
    const ConformanceTest *test;
    const char *folder;
    bool gradients;
    Fault fault;
} Run;

static int failed(Run *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(r->fault.text, sizeof r->fault.text, format, args);
    va_end(args);
    return STATUS_FAULT;
}

/* ---- comparing ---- */
static bool near(double found, double wanted, const Tolerance *t)
{
    if (isnan(wanted) || isnan(found)) return isnan(wanted) && isnan(found);
    return found == wanted || fabs(found - wanted) <= t->absolute + t->relative * fabs(wanted);
}

/* The largest finite element: what cancels out in an element of floats leaves two units of that one's last place. */
static double largest(const FileTensor *t)
{
    double most = 0;
    for (int64_t i = 0, n = count_of(t->rank, t->dims); i < n; i++) {
        double size = fabs(element_as_double(t->data, t->dtype, i));
        if (size > most && isfinite(size)) most = size;
    }
    return most;
}

static int compare_elements(Run *r, const OutputInfo *info, const void *found, const FileTensor *wanted, const Tolerance *t)
{
    size_t size = dtype_bytes((int)info->dtype);
    int64_t n = count_of(wanted->rank, wanted->dims);
    Tolerance within = *t;
    if (info->dtype == F32) within.absolute = fmax(within.absolute, 2 * FLT_EPSILON * largest(wanted));
    for (int64_t i = 0; i < n; i++) {
        if (!memcmp((const char *)found + (size_t)i * size, (const char *)wanted->data + (size_t)i * size, size)) continue;
        double f = element_as_double(found, (int)info->dtype, i), w = element_as_double(wanted->data, wanted->dtype, i);
        if (dtype_is_float((int)info->dtype) && near(f, w, &within)) continue;
        return failed(r, "output \"%s\", element %" PRId64 ": wanted %.9g, found %.9g", info->name, i, w, f);
    }
    return 0;
}

static int compare(Run *r, Session *s, const Program *program, int i, TensorFile *file)
{
    const OutputInfo *info = &program->outputs[i];
    FileTensor *wanted = tensor_find(file, info->name);
    int64_t dims[MAX_RANK] = {0}, bytes = session_output_bytes(s, program, i, dims);
    char a[256], b[256];
    if (!wanted) return failed(r, "output \"%s\" is not among the expected ones", info->name);
    if (tensor_data(file, wanted, &r->fault)) return STATUS_FAULT;
    if (wanted->dtype != (int)info->dtype)
        return failed(r, "output \"%s\": wanted %s, found %s", info->name, dtype_name(wanted->dtype), dtype_name((int)info->dtype));
    if (wanted->rank != info->rank || memcmp(wanted->dims, dims, (size_t)info->rank * sizeof *dims))
        return failed(r, "output \"%s\": wanted %s, found %s", info->name, dims_text(wanted->rank, wanted->dims, a, sizeof a),
                      dims_text(info->rank, dims, b, sizeof b));
    void *found = malloc((size_t)bytes + 1);
    if (!found) return fault_memory(&r->fault);
    int status = session_output(s, program, i, found, (size_t)bytes, &r->fault);
    if (!status) status = compare_elements(r, info, found, wanted, &r->test->outputs[i]);
    free(found);
    return status;
}

/* ---- running ---- */
static int run_batch(Run *r, Session *s, Data *data)
{
    const Model *m = r->test->model;
    Batch batch;
    StepResult result;
    char path[4096];
    TensorFile wanted;
    if (batch_create(&batch, m)) return fault_memory(&r->fault);
    int status = data_batch(data, 0, &batch, &r->fault);
    if (!status && r->gradients) return run_gradients(s, &batch, r->fault.text, sizeof r->fault.text, &r->fault);
    if (!status) status = session_run(s, m->infer, &batch, &result, &r->fault);
    if (!status && result.broke)
        status = failed(r, "guard %s does not hold: %s, found %s", result.breach.name, result.breach.formula, result.breach.values);
    snprintf(path, sizeof path, "%s/wanted.safetensors", r->folder);
    if (!status) status = tensor_file_open(&wanted, path, &r->fault);
    for (int i = 0; i < m->infer->n_outputs && !status; i++) status = compare(r, s, m->infer, i, &wanted);
    return status;
}

static int run(Run *r)
{
    const Model *m = r->test->model;
    SessionOptions options = {.seed = 1, .plan_again = true};
    Session *s;
    Data data = {0};
    char inputs[4096], weights[4096];
    snprintf(inputs, sizeof inputs, "%s/inputs.safetensors", r->folder);
    snprintf(weights, sizeof weights, "%s/weights.safetensors", r->folder);
    DataOptions wanted = {.path = inputs, .whole = true};
    int status = data_open(&data, m, m->infer, &wanted, &r->fault);
    if (!status) status = session_open(&s, m, &options, &r->fault);
    if (!status) status = session_load_weights(s, weights, false, &r->fault);
    return status ? status : run_batch(r, s, &data);
}

/* In a child: what it says goes through a pipe. */
static void run_apart(const ConformanceTest *test, const char *unit, bool gradients)
{
    int ends[2], status = 0;
    char folder[4000], said[1000] = "";
    if (pipe(ends)) exit(1);
    snprintf(folder, sizeof folder, "%s/%s", unit, test->name);
    fflush(NULL);
    pid_t child = fork();
    if (child < 0) exit(1);
    if (child == 0) {
        static Run r;
        r = (Run){.test = test, .folder = folder, .gradients = gradients};
        alarm(SECONDS);
        int result = run(&r);
        r.fault.text[strcspn(r.fault.text, "\n\t")] = 0;
        if ((result || gradients) && write(ends[1], r.fault.text, strlen(r.fault.text)) < 0) _exit(1);
        _exit(result);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], said, sizeof said - 1);
    said[n > 0 ? n : 0] = 0;
    close(ends[0]);
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) snprintf(said, sizeof said, "running it ended by signal %d", WTERMSIG(status));
    printf("%s\t%s\t%s\n", test->name, status ? "failed" : "passed", said);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        fprintf(stderr, "usage: %s UNIT [gradients]\n", argv[0]);
        return 2;
    }
    for (const ConformanceTest *t = conformance_tests; t->name; t++) run_apart(t, argv[1], argc > 2);
    return 0;
}
