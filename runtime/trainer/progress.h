/* What a person watching sees: a bar on a terminal, else a line now and then; and the summary at the end. */
#ifndef PROGRESS_H
#define PROGRESS_H
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    bool shown, terminal;
    int64_t first, total;
    double started, last;
    double loss_first, loss_last;
    int64_t steps;  /* that trained */
    double seconds; /* in steps */
} Progress;
void progress_start(Progress *progress, bool never, int64_t first, int64_t total);
void progress_step(Progress *progress, int64_t step, double loss, double seconds);
void progress_end(Progress *progress); /* leaves the cursor on a fresh line */
/* By which guards batches were set aside, and trained in part: "" or "time_possible 2, x_finite 1" */
void progress_summary(const Progress *progress, int64_t peak_bytes, int64_t skipped, const char *set_aside, const char *in_part);
/* "1.5 GiB" */
const char *bytes_text(int64_t bytes, char *out, int size);
#endif
