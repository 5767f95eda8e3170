/* Chooses by the medians of a few steps; a way that is not clearly faster is not taken.  Needs: nothing. Breaks: nothing. */
#include "sharing.h"

static const double LONG_STEP = 2e-3, /* handing over is little beside it */
    FASTER = 0.9;

static double middle(const double *x)
{
    const double low = x[0] < x[1] ? x[0] : x[1], high = x[0] < x[1] ? x[1] : x[0];
    return x[2] < low ? low : x[2] > high ? high : x[2];
}

static void begin(Sharing *s, bool alone, bool trial, int64_t until)
{
    s->alone = alone;
    s->trial = trial;
    s->steps = 0;
    s->until = until;
}

void sharing_spent(Sharing *sharing, double bytes, double seconds)
{
    Sharing *s = sharing;
    if (seconds > LONG_STEP) {
        if (s->alone) *s = (Sharing){0};
        s->steps = 0;
        return;
    }
    /* the first one finds what it needs near other cores */
    if (s->steps > 0) s->rates[s->alone][s->steps % SHARING_KEPT] = seconds / (bytes > 1 ? bytes : 1);
    if (++s->steps < (s->until ? s->until : SHARING_FIRST)) return;
    if (!s->trial) {
        begin(s, !s->alone, true, SHARING_TRIAL);
        return;
    }
    const bool better = middle(s->rates[s->alone]) < FASTER * middle(s->rates[!s->alone]);
    begin(s, better ? s->alone : !s->alone, false, SHARING_AGAIN);
}
