/* Copies between the device and the host's memory beside the launches of a step: what a plan offloads leaves and comes back this way
 * (copies_cuda.cu: two more streams and pinned memory; copies_host.cpp: a stand-in that copies as late as it may).
 *
 *     copies_out(c, 3, x, 0, n)     what is launched so far makes x; from then on n bytes of x go to byte 0 of the host's memory
 *     copies_out_done(c, 3)         what is launched from now on may write over x
 *     copies_back(c, y, 0, n)       what is launched so far is done with y; from then on the bytes come to y
 *     copies_back_done(c)           what is launched from now on may read all that was to come back
 *
 * Functions return 0 or an error of memory.h. */
#ifndef DEVICE_COPIES_H
#define DEVICE_COPIES_H
#include <stdbool.h>
#include "memory.h"
#ifdef __cplusplus
extern "C" {
#endif
typedef struct Copies Copies;

bool copies_lead_elsewhere(void); /* the device has memory of its own: false on the processor */
int copies_open(Copies **copies, Device *device, int n_points);
void copies_close(Copies *copies);
int copies_room(Copies *copies, int64_t bytes); /* of the host's memory; between steps: what it held is lost */
int copies_out(Copies *copies, int point, const void *from, int64_t host_at, int64_t bytes);
int copies_out_done(Copies *copies, int point);
int copies_back(Copies *copies, void *to, int64_t host_at, int64_t bytes);
int copies_back_done(Copies *copies);
#ifdef __cplusplus
}
#endif
#endif
