/* Messages of the trainer: the fault, bounded text, near names.  Needs and breaks nothing. */
#include "fault.h"
#include <limits.h>
#include <stdbool.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int fault_set(Fault *fault, int status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fault->status = status;
    vsnprintf(fault->text, sizeof fault->text, format, args);
    va_end(args);
    return status;
}

int fault_memory(Fault *fault)
{
    return fault_set(fault, STATUS_FAULT, "no host memory left");
}

void text_add(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

enum { LONGEST_NAME = 200 };

/* Edit distance; names longer than LONGEST_NAME are never near. */
static int distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    int row[LONGEST_NAME + 1];
    if (n > LONGEST_NAME || m > LONGEST_NAME) return INT_MAX;
    for (size_t j = 0; j <= m; j++) row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int corner = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int best = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            row[j] = best;
        }
    }
    return row[m];
}

void near_start(Near *near, const char *wanted)
{
    memset(near, 0, sizeof *near);
    near->wanted = wanted;
}

void near_offer(Near *near, const char *candidate)
{
    int d = distance(near->wanted, candidate), longest = (int)strlen(near->wanted);
    bool part = strlen(candidate) >= 3 && longest >= 3 && (strstr(candidate, near->wanted) || strstr(near->wanted, candidate));
    if (d > 1 + longest / 3 && !part) return;
    int at = near->n < NEAR_NAMES ? near->n++ : NEAR_NAMES;
    for (; at > 0 && near->distances[at - 1] > d; at--)
        if (at < NEAR_NAMES) near->distances[at] = near->distances[at - 1], near->names[at] = near->names[at - 1];
    if (at < NEAR_NAMES) near->distances[at] = d, near->names[at] = candidate;
}

const char *near_text(const Near *near, char *out, size_t size)
{
    out[0] = 0;
    for (int i = 0; i < near->n; i++) text_add(out, size, "%s\"%s\"", i == 0 ? " (did you mean " : " or ", near->names[i]);
    if (near->n) text_add(out, size, "?)");
    return out;
}
