/* Writes events.  Needs and breaks nothing. */
#include "events.h"
#include "../trainer/json.h"

static void member(FILE *to, const char *name, const char *value)
{
    fprintf(to, ",\"%s\":", name);
    json_string(to, value);
}

void event_guard(FILE *to, const Model *m, const char *event, int64_t step, const Breach *breach, const int64_t *dims,
                 double milliseconds)
{
    fputs("{\"event\":", to);
    json_string(to, event);
    fprintf(to, ",\"step\":%lld", (long long)step);
    member(to, "guard", breach->name);
    member(to, "formula", breach->formula);
    member(to, "source", breach->source);
    member(to, "relies", breach->relies);
    member(to, "values", breach->values);
    fputs(",\"dims\":", to);
    json_dims(to, m, dims);
    member(to, "action", event);
    fputs(",\"milliseconds\":", to);
    json_real(to, milliseconds);
    fputs(",\"variant\":null}\n", to);
}

void event_plain(FILE *to, const char *event, int64_t step, const char *detail)
{
    fputs("{\"event\":", to);
    json_string(to, event);
    fprintf(to, ",\"step\":%lld", (long long)step);
    if (detail) member(to, "detail", detail);
    fputs("}\n", to);
}
