/* Whether the processor's threads share out a step, or one thread does it alone.
 *
 * Sharing costs the time in which cores hand each other data.  Where they lie far apart (on other chiplets, in other sockets; the cores of a
 * virtual machine may move there while a program runs), a step of a tenth of a millisecond is faster on one of them.  Its work is cut up
 * alike either way, so its results have the same bits.  Steps that are short enough are tried both ways now and then. */
#ifndef SHARING_H
#define SHARING_H
#include <stdbool.h>
#include <stdint.h>

enum { SHARING_KEPT = 3, SHARING_TRIAL = 4, SHARING_FIRST = 32, SHARING_AGAIN = 512 };
typedef struct {
    bool alone; /* the next step is */
    bool trial; /* as steps usually are not */
    int64_t steps; /* of this way since it began */
    int64_t until; /* so many of them it goes on; 0: SHARING_FIRST */
    double rates[2][SHARING_KEPT]; /* seconds a byte of the last steps, by way */
} Sharing; /* zeroed at first */

/* Behind a step that took so long, and whose tensors have so many bytes. */
void sharing_spent(Sharing *sharing, double bytes, double seconds);
#endif
