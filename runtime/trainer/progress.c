/* Progress on stdout.  Needs and breaks nothing. */
#define _POSIX_C_SOURCE 200809L
#include "progress.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "../device/clock.h"

enum { BAR = 24 };
static const double BAR_EVERY = 0.1, LINE_EVERY = 2; /* seconds */

const char *bytes_text(int64_t bytes, char *out, int size)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 5; unit++) value /= 1024;
    snprintf(out, (size_t)size, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
    return out;
}

void progress_start(Progress *progress, bool never, int64_t first, int64_t total)
{
    *progress = (Progress){
        .shown = !never, .terminal = isatty(STDOUT_FILENO), .first = first, .total = total, .started = seconds_now(), .last = -1e9};
    progress->loss_first = progress->loss_last = NAN;
}

static void show_bar(int64_t done, int64_t total)
{
    int filled = total > 0 ? (int)((double)done / (double)total * BAR) : BAR;
    putchar('\r');
    putchar('[');
    for (int i = 0; i < BAR; i++) putchar(i < filled ? '#' : '.');
    fputs("] ", stdout);
}

void progress_step(Progress *progress, int64_t step, double loss, double seconds)
{
    double time = seconds_now();
    int64_t done = step + 1 - progress->first, left = progress->total - step - 1;
    if (!progress->steps) progress->loss_first = loss;
    progress->loss_last = loss;
    progress->steps++;
    progress->seconds += seconds;
    bool due = time - progress->last >= (progress->terminal ? BAR_EVERY : LINE_EVERY) || left == 0;
    if (!progress->shown || !due) return;
    double rate = (double)done / fmax(time - progress->started, 1e-9);
    progress->last = time;
    if (progress->terminal) show_bar(step + 1, progress->total);
    printf("step %" PRId64 "/%" PRId64 "  loss %.6f  %.2f steps/s  %.0f s left", step + 1, progress->total, loss, rate,
           (double)left / rate);
    fputs(progress->terminal ? "   " : "\n", stdout);
    fflush(stdout);
}

void progress_end(Progress *progress)
{
    if (progress->shown && progress->terminal && progress->steps) putchar('\n');
    fflush(stdout);
}

void progress_summary(const Progress *progress, int64_t peak_bytes, int64_t skipped, const char *set_aside, const char *in_part)
{
    char peak[32];
    printf("%" PRId64 " step%s", progress->steps, progress->steps == 1 ? "" : "s");
    if (progress->steps) printf(", loss %.6f -> %.6f", progress->loss_first, progress->loss_last);
    printf(", %.2f s in steps", progress->seconds);
    if (progress->steps && progress->seconds > 0) printf(" (%.2f steps/s)", (double)progress->steps / progress->seconds);
    printf(", peak %s", bytes_text(peak_bytes, peak, sizeof peak));
    if (skipped) printf(", %" PRId64 " batch%s set aside%s", skipped, skipped == 1 ? "" : "es", *in_part ? " or trained in part" : "");
    if (*set_aside || *in_part) printf(" (%s%s%s)", set_aside, *set_aside && *in_part ? ", " : "", in_part);
    putchar('\n');
    fflush(stdout);
}
