/* Writes events.  Needs and breaks nothing. */
#include "events.h"
#include <string.h>
#include "../trainer/fault.h"
#include "../trainer/json.h"

static void member(FILE *to, const char *name, const char *value)
{
    fprintf(to, ",\"%s\":", name);
    json_string(to, value);
}

static void broken_guard(FILE *to, const Model *m, const char *event, int64_t step, const Breach *breach, const int64_t *dims)
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
}

static void end_of_guard(FILE *to, const char *action, double milliseconds)
{
    member(to, "action", action);
    fputs(",\"milliseconds\":", to);
    json_real(to, milliseconds);
    fputs(",\"variant\":null}\n", to);
}

void event_guard(FILE *to, const Model *m, const char *event, int64_t step, const Breach *breach, const int64_t *dims,
                 double milliseconds)
{
    broken_guard(to, m, event, step, breach, dims);
    end_of_guard(to, event, milliseconds);
}

void event_kept(FILE *to, const Model *m, int64_t step, const Breach *breach, const char *cause, const char *node, const int64_t *dims,
                double milliseconds)
{
    broken_guard(to, m, "trained_in_part", step, breach, dims);
    member(to, "cause", cause);
    fputs(",\"node\":", to);
    if (node)
        json_string(to, node);
    else
        fputs("null", to);
    end_of_guard(to, "elements_kept", milliseconds);
}

void event_nan(FILE *to, int64_t step, int unit, const char *node, const char *kernel, const char *tensor)
{
    fprintf(to, "{\"event\":\"nan\",\"step\":%lld,\"unit\":%d", (long long)step, unit);
    member(to, "node", node);
    member(to, "kernel", kernel ? kernel : "");
    member(to, "tensor", tensor);
    fputs("}\n", to);
}

void event_mended(FILE *to, const Model *m, int64_t step, const Mended *e, const int64_t *dims, double milliseconds)
{
    fprintf(to, "{\"event\":\"fell_back\",\"step\":%lld", (long long)step);
    member(to, "guard", e->guard);
    member(to, "kernel", e->kernel);
    member(to, "program", e->program);
    fprintf(to, ",\"unit\":%d", e->unit);
    member(to, "source", e->source);
    member(to, "detail", e->detail);
    fputs(",\"dims\":", to);
    json_dims(to, m, dims);
    fputs(",\"action\":\"unfused\",\"milliseconds\":", to);
    json_real(to, milliseconds);
    fputs(",\"variant\":null}\n", to);
}

void event_variant(FILE *to, const Model *m, int64_t step, const VariantEvent *event)
{
    fputs("{\"event\":", to);
    json_string(to, event->event);
    fprintf(to, ",\"step\":%lld", (long long)step);
    member(to, "variant", event->name);
    member(to, "program", event->program);
    fputs(",\"dims\":", to);
    json_dims(to, m, event->dims);
    member(to, "detail", event->detail);
    fputs(",\"milliseconds\":", to);
    json_real(to, event->milliseconds);
    fputs("}\n", to);
}

void event_graph(FILE *to, const Model *m, int64_t step, const GraphEvent *event)
{
    fputs("{\"event\":", to);
    json_string(to, event->event);
    fprintf(to, ",\"step\":%lld", (long long)step);
    member(to, "program", event->program);
    fputs(",\"dims\":", to);
    json_dims(to, m, event->dims);
    if (*event->why) member(to, "why", event->why);
    fprintf(to, ",\"launches\":%d,\"graphs\":%d,\"bytes\":%lld,\"milliseconds\":", event->size.launches, event->size.graphs, (long long)event->bytes);
    json_real(to, event->milliseconds);
    fputs("}\n", to);
}

void tally_add(Tally *tally, const char *event, const char *about)
{
    int i = 0;
    while (i < tally->n && (strcmp(tally->row[i].event, event) || strcmp(tally->row[i].about, about))) i++;
    if (i == TALLY_ROWS) i--, tally->row[i].about[0] = 0;
    struct TallyRow *row = &tally->row[i];
    if (i == tally->n) {
        tally->n++;
        snprintf(row->event, sizeof row->event, "%s", event);
        snprintf(row->about, sizeof row->about, "%s", about);
    }
    row->n++;
}

int64_t tally_of(const Tally *tally, const char *event)
{
    int64_t n = 0;
    for (int i = 0; i < tally->n; i++) n += strcmp(tally->row[i].event, event) ? 0 : tally->row[i].n;
    return n;
}

void tally_text(const Tally *tally, const char *event, char *out, size_t size)
{
    const char *separator = "";
    out[0] = 0;
    for (int i = 0; i < tally->n; i++) {
        if (strcmp(tally->row[i].event, event)) continue;
        text_add(out, size, "%s%s %lld", separator, tally->row[i].about, (long long)tally->row[i].n);
        separator = ", ";
    }
}

void event_summary(FILE *to, int64_t batches, int64_t trained, const Tally *tally)
{
    fprintf(to, "{\"event\":\"summary\",\"batches\":%lld,\"trained\":%lld,\"set_aside\":%lld,\"events\":[", (long long)batches, (long long)trained,
            (long long)tally_of(tally, "set_aside"));
    for (int i = 0; i < tally->n; i++) {
        fputs(i ? ",{\"event\":" : "{\"event\":", to);
        json_string(to, tally->row[i].event);
        member(to, "about", tally->row[i].about);
        fprintf(to, ",\"n\":%lld}", (long long)tally->row[i].n);
    }
    fputs("]}\n", to);
}

void event_scale(FILE *to, const char *event, int64_t step, double scale, double next)
{
    fputs("{\"event\":", to);
    json_string(to, event);
    fprintf(to, ",\"step\":%lld,\"loss_scale\":", (long long)step);
    json_real(to, scale);
    fputs(",\"next_loss_scale\":", to);
    json_real(to, next);
    fputs("}\n", to);
}

void event_budget(FILE *to, const Model *m, int64_t step, const BudgetEvent *event, const int64_t *dims, double milliseconds)
{
    fputs("{\"event\":", to);
    json_string(to, event->event);
    fprintf(to, ",\"step\":%lld,\"refused_bytes\":%lld,\"budget\":%lld,\"peak_bytes\":%lld,\"recomputed\":%d,\"dims\":", (long long)step,
            (long long)event->refused, (long long)event->budget, (long long)event->peak_bytes, event->recomputed);
    json_dims(to, m, dims);
    fputs(",\"action\":\"planned_again\",\"milliseconds\":", to);
    json_real(to, milliseconds);
    fputs("}\n", to);
}

void event_plain(FILE *to, const char *event, int64_t step, const char *detail)
{
    fputs("{\"event\":", to);
    json_string(to, event);
    fprintf(to, ",\"step\":%lld", (long long)step);
    if (detail) member(to, "detail", detail);
    fputs("}\n", to);
}
