/* The rungs: kept so that none is as good as another in memory and in time; read from and written to the library.
 * Needs: simulations.  Breaks: nothing. */
#include "ladder.h"
#include <stdlib.h>
#include <string.h>

void ladder_init(Ladder *ladder, const Flow *flow)
{
    *ladder = (Ladder){.n_gaps = flow->n_gaps};
}

void ladder_free(Ladder *ladder)
{
    for (int i = 0; i < ladder->n; i++) free(ladder->rungs[i].modes);
    free(ladder->rungs);
    ladder->rungs = NULL;
    ladder->n = ladder->room = 0;
}

static void remove_rungs(Ladder *l, int from, int to)
{
    if (from == to) return; /* of an empty ladder, too */
    for (int i = from; i < to; i++) free(l->rungs[i].modes);
    memmove(l->rungs + from, l->rungs + to, (size_t)(l->n - to) * sizeof *l->rungs);
    l->n -= to - from;
}

bool ladder_offer(Ladder *l, const Simulation *s, const uint8_t *modes)
{
    int at = 0, end;
    while (at < l->n && l->rungs[at].peak > s->peak) at++;
    if (at < l->n && l->rungs[at].seconds <= s->seconds) return true;
    end = at;
    while (at > 0 && l->rungs[at - 1].seconds >= s->seconds) at--; /* more memory and no faster */
    if (end < l->n && l->rungs[end].peak == s->peak) end++;
    uint8_t *copy = malloc((size_t)l->n_gaps + 1);
    if (!copy) return false;
    memcpy(copy, modes, (size_t)l->n_gaps);
    remove_rungs(l, at, end);
    if (l->n == l->room) {
        int room = l->room ? 2 * l->room : 64;
        Rung *rungs = realloc(l->rungs, (size_t)room * sizeof *rungs);
        if (!rungs) {
            free(copy);
            return false;
        }
        l->rungs = rungs;
        l->room = room;
    }
    memmove(l->rungs + at + 1, l->rungs + at, (size_t)(l->n - at) * sizeof *l->rungs);
    l->rungs[at] = (Rung){s->peak, s->seconds, s->flops, copy};
    l->n++;
    return true;
}

void ladder_straighten(Ladder *l)
{
    for (int i = l->n - 1; i > 0;) {
        int keep = i - 1;
        while (keep >= 0 && l->rungs[keep].flops > l->rungs[i].flops) keep--;
        remove_rungs(l, keep + 1, i);
        i = keep;
    }
}

int64_t ladder_effort(const Flow *flow, int64_t touches)
{
    return touches / (flow->in_at[flow->n_units] + flow->out_at[flow->n_units] + 3 * flow->n_units + 1);
}

void ladder_text(const Flow *flow, const uint8_t *modes, char *text)
{
    for (int g = 0; g < flow->n_gaps; g++)
        if (flow->movable[g]) *text++ = (char)('0' + modes[g]);
    *text = 0;
}

bool ladder_parse(const Flow *flow, const char *text, uint8_t *modes)
{
    for (int g = 0; g < flow->n_gaps; g++) {
        modes[g] = KEEP;
        if (!flow->movable[g]) continue;
        if (*text < '0' || *text > '0' + OFFLOAD) return false;
        modes[g] = (uint8_t)(*text++ - '0');
    }
    return !*text;
}
