/* Makes one translation unit of many node tests.
 *
 *     conformance_batch fixed|symbolic|gradients|symbolic-gradients DIR UNIT NAME...
 *
 * DIR/NAME: model.onnx, test_data_set_0.  Written: UNIT/NAME, the test's generated source, and UNIT/unit.cpp, all of them with a
 * table.  Prints a line a test, separated by tabs: name, "made" or "not", dims that vary, dims that there are, inputs made
 * constants, inputs, what was said (why it was not made, or why not all dims vary), the operator.
 *
 * fixed: shapes as in the model.  symbolic: each dim of each input a symbol of its own, where the operator lets it vary; dims that
 * it must know, and those whose being 1 means a broadcast, stay as they are.  gradients: shapes as in the model; in place of its
 * outputs a loss and gradients, in double precision (gradients.h); symbolic-gradients: that, with symbols.  Inputs whose elements
 * decide on shapes are made constants, as few as possible: found by trying.  Each trial runs in a process of its own, so that an
 * error ends no more than it.
 */
#include "test/conformance/case.h"
#include "support/diag.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

enum { MADE = 0, CONTRADICTS = 3, SECONDS = 20 };
enum { FROZEN_NONE, FROZEN_INTEGERS, FROZEN_BUT_FIRST, FROZEN_ALL, FREEZES };

typedef struct {
    Case c;
    bool symbolic;
    char said[1000]; /* by the first trial that failed */
} Trial;

/* ---- one trial ---- */
/* The first line that is no note. */
static void first_line(FILE *messages, char *said, size_t room)
{
    char line[1000];
    rewind(messages);
    while (fgets(line, sizeof line, messages)) {
        line[strcspn(line, "\n")] = 0;
        for (char *p = line; *p; p++)
            if (*p == '\t') *p = ' ';
        if (strncmp(line, "disc-gen: note", 14) != 0 && (!said[0] || strstr(said, "not supported:") == said + strlen(said) - 14))
            snprintf(said + strlen(said), room - strlen(said), "%s", line);
    }
}

static int in_child(void (*work)(Trial *), Trial *t, char *said, size_t room)
{
    FILE *messages = tmpfile();
    check(messages);
    fflush(NULL);
    pid_t child = fork();
    check(child >= 0);
    if (child == 0) {
        dup2(fileno(messages), 1);
        dup2(fileno(messages), 2);
        alarm(SECONDS);
        work(t);
        _exit(MADE);
    }
    int status;
    waitpid(child, &status, 0);
    said[0] = 0;
    first_line(messages, said, room);
    fclose(messages);
    if (!WIFEXITED(status))
        snprintf(said, room, WTERMSIG(status) == SIGALRM ? "takes more than %d s" : "ended by signal %d",
                 WTERMSIG(status) == SIGALRM ? SECONDS : WTERMSIG(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void write_it(Trial *t)
{
    if (!case_write(&t->c)) _exit(CONTRADICTS);
}

static bool works(Trial *t)
{
    char said[1000];
    if (in_child(write_it, t, said, sizeof said) == MADE) return true;
    if (!t->said[0] || strstr(said, "no gradient: ")) snprintf(t->said, sizeof t->said, "%s", said);
    return false;
}

/* ---- dims ---- */
/* Makes dims of at least `least` symbols; frozen inputs have none.  Returns how many. */
static int vary(Trial *t, int least)
{
    int n = 0;
    for (int i = 0; i < t->c.n_inputs; i++)
        for (int k = 0; k < t->c.rank[i]; k++) n += t->c.varies[i][k] = !t->c.frozen[i] && t->c.dims[i][k] >= least;
    return n;
}

/* Finds a large set of dims that may vary; false where none works, not even the empty one. */
static bool settle_dims(Trial *t)
{
    const int none = 1 << 30;
    if (t->symbolic && vary(t, 1) && works(t)) return true;
    if (t->symbolic && vary(t, 2) && works(t)) return true;
    vary(t, none);
    if (!works(t)) return false;
    for (int i = 0; t->symbolic && i < t->c.n_inputs; i++)
        for (int k = 0; k < t->c.rank[i]; k++) {
            if (t->c.frozen[i] || t->c.dims[i][k] < 1) continue;
            t->c.varies[i][k] = true;
            t->c.varies[i][k] = works(t);
        }
    return true;
}

/* ---- constants ---- */
static int freeze(Trial *t, int which)
{
    int n = 0;
    for (int i = 0; i < t->c.n_inputs; i++)
        n += t->c.frozen[i] =
            which == FROZEN_ALL || (which == FROZEN_BUT_FIRST && i > 0) || (which == FROZEN_INTEGERS && t->c.is_integer[i]);
    return n;
}

/* Takes back what need not be constant. */
static void thaw(Trial *t)
{
    for (int i = 0; i < t->c.n_inputs; i++) {
        if (!t->c.frozen[i]) continue;
        t->c.frozen[i] = false;
        if (!works(t)) t->c.frozen[i] = true;
    }
}

/* Settles what is constant with all dims as they are, then which dims vary. */
static bool settle(Trial *t)
{
    vary(t, 1 << 30);
    for (int which = 0; which < FREEZES; which++) {
        if (!freeze(t, which) && which != FROZEN_NONE) continue;
        if (!works(t)) continue;
        thaw(t);
        t->said[0] = 0; /* what is said from now on tells why dims do not vary */
        return !t->symbolic || settle_dims(t);
    }
    return false;
}

/* ---- the unit ---- */
/* case_read happens in a child too: here it says whether the files can be read at all, then once more to keep what it found. */
static void read_it(Trial *t)
{
    case_read(&t->c);
}

static void report(const Trial *t, bool made)
{
    int varying = 0, dims = 0, frozen = 0;
    for (int i = 0; i < t->c.n_inputs; i++) {
        frozen += t->c.frozen[i];
        dims += t->c.rank[i];
        for (int k = 0; k < t->c.rank[i]; k++) varying += t->c.varies[i][k];
    }
    printf("%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", t->c.name, made ? "made" : "not", varying, dims, frozen, t->c.n_inputs, t->said,
           t->c.op);
}

/* Compiled with -DWITHOUT_NAME a test is left out: unit.sh does so where its text does not compile. */
static void include(FILE *unit, const char *name)
{
    fprintf(unit,
            "#ifndef WITHOUT_%s\nnamespace %s {\n#define infer_step %s_infer_step\n#undef MODEL_H\n"
            "#include \"%s/model.cu\"\n#include \"%s/controller.c\"\n#include \"%s/row.h\"\n#undef infer_step\n}\n#endif\n",
            name, name, name, name, name, name);
}

static void include_all(FILE *unit, char **names, int n)
{
    fputs("/* Many models, each in a namespace of its own; what they include stands before all of them. */\n#include "
          "\"runtime/device/device.h\"\n"
          "#include \"runtime/device/blas.h\"\n#include \"runtime/device/conv.h\"\n#include \"runtime/device/pool.h\"\n"
          "#include \"runtime/device/attention.h\"\n#include \"runtime/controller/step.h\"\n"
          "#include \"runtime/controller/integers.h\"\n#include \"test/conformance/runner.h\"\n",
          unit);
    for (int i = 0; i < n; i++) include(unit, names[i]);
    fputs("extern \"C\" const ConformanceTest conformance_tests[];\nconst ConformanceTest conformance_tests[] = {\n", unit);
    for (int i = 0; i < n; i++)
        fprintf(unit, "#ifndef WITHOUT_%s\n    {\"%s\", &%s::model, %s::%s_tolerances},\n#endif\n", names[i], names[i], names[i],
                names[i], names[i]);
    fputs("    {0, 0, 0}};\n", unit);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: %s fixed|symbolic|gradients|symbolic-gradients DIR UNIT NAME...\n", argv[0]);
        return 2;
    }
    char **made = calloc((size_t)argc, sizeof *made), path[4096];
    int n_made = 0;
    check(made);
    for (int i = 4; i < argc; i++) {
        char from[2048], to[2048];
        snprintf(from, sizeof from, "%s/%s", argv[2], argv[i]);
        snprintf(to, sizeof to, "%s/%s", argv[3], argv[i]);
        Trial t = {.c = {.name = argv[i], .from = from, .to = to}, .symbolic = strncmp(argv[1], "symbolic", 8) == 0};
        t.c.gradients = strstr(argv[1], "gradients") != NULL;
        bool good = in_child(read_it, &t, t.said, sizeof t.said) == MADE;
        if (good) {
            t.said[0] = 0;
            case_read(&t.c);
            good = settle(&t);
        }
        report(&t, good);
        if (good) made[n_made++] = argv[i];
    }
    snprintf(path, sizeof path, "%s/unit.cpp", argv[3]);
    FILE *unit = fopen(path, "w");
    if (!unit) {
        perror(path);
        return 1;
    }
    include_all(unit, made, n_made);
    return fclose(unit) != 0;
}
