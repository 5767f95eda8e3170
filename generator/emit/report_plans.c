/* Points and plans in report.html: what may be given up and made again, and what the library's plans do with it.
 *
 * A plan is laid out by the controller's own simulation; what it does holds for any dims, so the page only has to add up sizes. */
#include "emit/plans.h"
#include "emit/report_private.h"

enum { NUMBERS_MOST = 100000 }; /* in all plans together; where they are more, fewer plans are shown */

static void put_points(Report *r, const Program *p)
{
    buf_put(&r->out, "/* buffer, the launches between which its memory may serve others, unit that makes it, recipe */\npoints: [\n");
    for (int k = 0; k < p->points.n; k++) {
        const Point *point = &p->points.at[k];
        buf_printf(&r->out, "[%d,%d,%d,%d,%d],\n", point->buffer, p->units.at[point->gone].last, p->units.at[point->back].first,
                   point->maker, report_word(r, point->recipe));
    }
    buf_put(&r->out, "],\n/* unit of which some results are made again, flops, bytes moved */\nrecipes: [\n");
    for (int i = 0; i < p->recipes.n; i++)
        buf_printf(&r->out, "[%d,%d,%d],\n", p->recipes.at[i].of, report_size(r, p->recipes.at[i].flops),
                   report_size(r, p->recipes.at[i].moved));
    buf_put(&r->out, "],\n");
}

static void put_runs(Report *r, const LibraryRun *runs, int n)
{
    int64_t numbers = 0;
    for (int i = 0; i < n; i++) numbers += runs[i].n_again + runs[i].n_alive + runs[i].n_points;
    const int every = (int)(numbers / NUMBERS_MOST) + 1;
    for (int i = 0; i < n; i++) {
        if (i % every && i != n - 1) continue;
        buf_printf(&r->out, "{plan: %d,\n", i);
        report_numbers(r, "points", runs[i].points, runs[i].n_points);
        report_numbers(r, "again", runs[i].again, runs[i].n_again);
        report_numbers(r, "alive", runs[i].alive, runs[i].n_alive);
        buf_put(&r->out, "},\n");
    }
}

void report_plans(Report *r, const Program *p)
{
    put_points(r, p);
    buf_printf(&r->out, "flopsAByte: %.17g,\n", library_flops_a_byte());
    buf_put(&r->out, "/* points that act; pairs: before which unit which runs again; triples: buffer, first and last tick that it is alive */\n"
                     "plans: [\n");
    LibraryInput in;
    if (p->library.n && plans_input(r->l, p, &in)) {
        LibraryRun *runs = NEW_ARRAY(r->arena, LibraryRun, p->library.n + 1);
        library_run(r->arena, &in, p->library.at, p->library.n, runs);
        put_runs(r, runs, p->library.n);
    }
    buf_put(&r->out, "],\n");
}
