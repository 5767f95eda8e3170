/* What went wrong, in words and as an exit status.  Every function of the trainer that can fail takes a Fault and returns its
 * status: 0 is good. */
#ifndef FAULT_H
#define FAULT_H
#include <stddef.h>

enum {
    STATUS_DONE = 0,
    STATUS_FAULT = 1,   /* of the program itself, or of the device */
    STATUS_USER = 2,    /* model, option or data: what, where, wanted, found, what to do */
    STATUS_BUDGET = 3,  /* does not fit into memory */
    STATUS_ANOMALY = 4, /* stopped by a batch that contradicts the model */
};
typedef struct {
    int status;
    char text[6000];
} Fault;

/* Sets the fault and returns its status, so that a failing function ends in `return fault_set(...)`. */
int fault_set(Fault *fault, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
int fault_memory(Fault *fault); /* no host memory left */

/* Appends formatted text to a bounded string; what does not fit is cut. */
void text_add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Collects the names nearest to one that was not found.  near_start, near_offer for each candidate, near_text: ` (did you mean "a"
 * or "b"?)` or "". */
enum { NEAR_NAMES = 3 };
typedef struct {
    const char *wanted;
    const char *names[NEAR_NAMES];
    int distances[NEAR_NAMES];
    int n;
} Near;
void near_start(Near *near, const char *wanted);
void near_offer(Near *near, const char *candidate);
const char *near_text(const Near *near, char *out, size_t size);
#endif
