/* Judges gradients by differences (differences.h).  Needs and breaks nothing. */
#include "differences.h"
#include <math.h>
#include <stdbool.h>

const Precision precision_double = {0x1p-52, 4e-3, 6, 1e-6}, precision_float = {0x1p-23, 0.1, 3, 2e-2};

enum { MOST_LEVELS = 8 };
typedef struct {
    double h, above, below; /* loss at x + h, x - h */
    double numeric;         /* extrapolated */
} Level;

static double slope_above(const Level *l, const Element *e)
{
    return (l->above - e->loss) / l->h;
}

static double slope_below(const Level *l, const Element *e)
{
    return (e->loss - l->below) / l->h;
}

static bool all_numbers(const Level *l)
{
    return isfinite(l->above) && isfinite(l->below) && isfinite(l->numeric);
}

/* What a difference over h owes to the loss's last digits. */
static double rounding(const Level *l, const Element *e, const Precision *p)
{
    return 32 * p->epsilon * fabs(e->loss) / l->h;
}

static int measure(Level *l, const Element *e, double h, LossAt *at, void *context)
{
    double above = 0, below = 0, half;
    l->h = (e->x + h) - e->x; /* a number that x + h has digits for */
    half = (e->x + h / 2) - e->x;
    int status = at(context, e->x + l->h, &l->above);
    if (!status) status = at(context, e->x - l->h, &l->below);
    if (!status) status = at(context, e->x + half, &above);
    if (!status) status = at(context, e->x - half, &below);
    l->numeric = (4 * (above - below) / (2 * half) - (l->above - l->below) / (2 * l->h)) / 3;
    return status;
}

static double steepest(const Level *l, const Element *e)
{
    return fmax(fabs(slope_above(l, e)), fabs(slope_below(l, e)));
}

/* The loss changes by as much over a small h as over a large one. */
static bool jumps(const Level *first, const Level *last, const Element *e, const Precision *p)
{
    double before = steepest(first, e), after = steepest(last, e);
    return after > before * first->h / last->h / 8 && after > 100 * rounding(last, e, p);
}

/* At an edge: there the slopes of acosh and sqrt are infinite. */
static bool steepens(const Level *first, const Level *last, const Element *e)
{
    return isinf(e->analytic) && steepest(last, e) > 8 * steepest(first, e);
}

/* At a kink the slopes to the two sides stay apart as h shrinks; on a smooth curve their distance falls with h. */
static bool slopes_meet(const Level *first, const Level *last, const Element *e, const Precision *p)
{
    double before = fabs(slope_above(first, e) - slope_below(first, e)), after = fabs(slope_above(last, e) - slope_below(last, e));
    return after < before / 4 || after <= 2 * rounding(last, e, p);
}

static bool lies_between(const Level *l, const Element *e, const Precision *p)
{
    double a = slope_above(l, e), b = slope_below(l, e), room = 1e-3 * (fabs(a) + fabs(b)) + 2 * rounding(l, e, p);
    return e->analytic >= fmin(a, b) - room && e->analytic <= fmax(a, b) + room;
}

int difference_judge(const Element *e, const Precision *p, LossAt *at, void *context, Difference *d)
{
    Level levels[MOST_LEVELS];
    double h = p->step * fmax(fabs(e->x), e->scale);
    int n = 0;
    *d = (Difference){DIFFERENCE_WRONG, NAN, INFINITY};
    for (; n < p->levels && n < MOST_LEVELS; n++, h /= 8) {
        Level *l = &levels[n];
        int status = measure(l, e, h, at, context);
        if (status) return status;
        if (!all_numbers(l)) continue;
        double off = fabs(l->numeric - e->analytic), size = fmax(fmax(fabs(l->numeric), fabs(e->analytic)), e->least_size);
        double error = off > 0 ? off / size : 0;
        if (error < d->error || isnan(d->numeric)) d->error = error, d->numeric = l->numeric;
        bool told = rounding(l, e, p) <= p->tolerance * size, agreed = d->verdict == DIFFERENCE_AGREES;
        if (error <= p->tolerance)
            d->verdict = DIFFERENCE_AGREES;
        else if (!agreed && off <= rounding(l, e, p) && !told)
            d->verdict = DIFFERENCE_ROUNDING;
        /* one that agrees barely has one more try, to tell by how much */
        if (agreed || d->verdict == DIFFERENCE_ROUNDING || d->error <= p->tolerance / 10) return 0;
    }
    if (d->verdict == DIFFERENCE_AGREES) return 0;
    const Level *first = &levels[0], *last = &levels[n - 1];
    if (isnan(e->analytic)) return 0;
    if (!all_numbers(last) || jumps(first, last, e, p) || steepens(first, last, e))
        d->verdict = DIFFERENCE_KINK;
    else if (!slopes_meet(first, last, e, p) && lies_between(last, e, p))
        d->verdict = DIFFERENCE_KINK;
    return 0;
}
