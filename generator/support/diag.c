/* What is said to the user, on standard error.  The only state: the count of errors that wait for error_stop, the notes said so
 * far, and the model that is read. */
#include "support/diag.h"
#include "support/arena.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_FAULT = 1, STATUS_USER = 2 };
static int errors_added, n_notices;
static char **notices; /* said so far */
static const char *model_read; /* the model whose nodes are being turned into operations */

static void say(const char *kind, const char *format, va_list arguments)
{
    fflush(stdout); /* keeps the order in which things were said */
    fprintf(stderr, "disc-gen: %s: ", kind);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
}

void error_exit(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("error", format, arguments);
    va_end(arguments);
    exit(STATUS_USER);
}

void error_add(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("error", format, arguments);
    va_end(arguments);
    errors_added++;
}

void error_stop(void)
{
    if (errors_added) exit(STATUS_USER);
}

static void remember(const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    const size_t size = (size_t)vsnprintf(NULL, 0, format, again) + 1;
    va_end(again);
    char **more = realloc(notices, ((size_t)n_notices + 1) * sizeof *notices), *text = malloc(size);
    if (!more || !text) error_exit("no memory");
    vsnprintf(text, size, format, arguments);
    notices = more;
    notices[n_notices++] = text;
}

void notice(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("note", format, arguments);
    va_end(arguments);
    va_start(arguments, format);
    remember(format, arguments);
    va_end(arguments);
}

int notices_count(void)
{
    return n_notices;
}

const char *notice_at(int i)
{
    return notices[i];
}

void bug_at(const char *file, int line, const char *format, ...)
{
    fflush(stdout);
    fprintf(stderr, "disc-gen: fault of the program at %s:%d: ", file, line);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(STATUS_FAULT);
}

void reading(const char *model)
{
    model_read = model;
}

void misfit_at(const char *file, int line, const char *format, ...)
{
    fflush(stdout);
    if (model_read)
        fprintf(stderr, "disc-gen: error: %s: ", model_read);
    else
        fprintf(stderr, "disc-gen: fault of the program at %s:%d: ", file, line);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputs(model_read ? "; the model contradicts itself there: look at what this node is given\n" : "\n", stderr);
    exit(model_read ? STATUS_USER : STATUS_FAULT);
}

/* ---- did you mean ---- */

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Edits (insert, delete, replace) that lead from one name to the other, letter case aside: distance("wte.wieght", "wte.weight")
 * is 2. */
static int edit_distance(const char *a, const char *b, int *row)
{
    int n = (int)strlen(b);
    for (int j = 0; j <= n; j++) row[j] = j;
    for (int i = 0; a[i]; i++) {
        int diagonal = row[0];
        row[0] = i + 1;
        for (int j = 1; j <= n; j++) {
            int above = row[j];
            int replaced = diagonal + (tolower((unsigned char)a[i]) != tolower((unsigned char)b[j - 1]));
            row[j] = least(replaced, least(above, row[j - 1]) + 1);
            diagonal = above;
        }
    }
    return row[n];
}

/* One holds the other, as "wte" is held by "transformer.wte.weight". */
static bool holds(const char *wrong, const char *name)
{
    return strlen(wrong) >= 3 && (strstr(name, wrong) || (strlen(name) >= 3 && strstr(wrong, name)));
}

enum { NAMES_SHOWN = 3 };

const char *near_names(struct Arena *arena, const char *wrong, const char *const *names, int n)
{
    size_t longest = 0;
    for (int i = 0; i < n; i++) longest = strlen(names[i]) > longest ? strlen(names[i]) : longest;
    int *row = NEW_ARRAY(arena, int, longest + 1);
    int limit = 1 + (int)strlen(wrong) / 3;
    int best[NAMES_SHOWN], distance[NAMES_SHOWN], found = 0;
    for (int i = 0; i < n; i++) {
        int d = edit_distance(wrong, names[i], row);
        if (d > limit && holds(wrong, names[i])) d = limit;
        if (d > limit) continue;
        int at = found < NAMES_SHOWN ? found++ : NAMES_SHOWN;
        if (at == NAMES_SHOWN && d >= distance[NAMES_SHOWN - 1]) continue;
        if (at == NAMES_SHOWN) at--;
        for (; at > 0 && distance[at - 1] > d; at--) {
            best[at] = best[at - 1];
            distance[at] = distance[at - 1];
        }
        best[at] = i;
        distance[at] = d;
    }
    Buf out = {.arena = arena};
    for (int k = 0; k < found; k++) buf_printf(&out, "%s\"%s\"", k ? ", " : "", names[best[k]]);
    return buf_text(&out);
}
