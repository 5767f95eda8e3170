/* Writes JSON.  Needs and breaks nothing. */
#include "json.h"
#include "../controller/planner.h"
#include <math.h>

void json_string(FILE *to, const char *text)
{
    fputc('"', to);
    for (const unsigned char *c = (const unsigned char *)(text ? text : ""); *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(to, "\\%c", *c);
        else if (*c < 32)
            fprintf(to, "\\u%04x", *c);
        else
            fputc(*c, to);
    }
    fputc('"', to);
}

void json_real(FILE *to, double value)
{
    if (isfinite(value))
        fprintf(to, "%.9g", value);
    else
        fputs("null", to);
}

void json_dims(FILE *to, const Model *m, const int64_t *dims)
{
    bool first = true;
    fputc('{', to);
    for (int i = 0; i < m->n_dims; i++) {
        if (planner_chooses(m, i)) continue;
        if (!first) fputc(',', to);
        first = false;
        json_string(to, m->dims[i].name);
        fprintf(to, ":%lld", (long long)dims[i]);
    }
    fputc('}', to);
}

void json_shape(FILE *to, int rank, const int64_t *dims)
{
    fputc('[', to);
    for (int i = 0; i < rank; i++) fprintf(to, "%s%lld", i ? "," : "", (long long)dims[i]);
    fputc(']', to);
}
