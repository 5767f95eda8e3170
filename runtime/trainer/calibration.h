/* What this machine does in a second, for plans that weigh making a buffer again against copying it to the host: measured once on each
 * device and kept beside the program, so that the same machine makes the same plans.
 *
 *     calibration.json: {"device":"NVIDIA H200","flops":5.1e13,"moved":4.1e12,"copied":5.2e10}     each a second */
#ifndef CALIBRATION_H
#define CALIBRATION_H
#include "../controller/flow.h"
#include "fault.h"
#include "options.h"

/* From --calibration FILE; else from the folder's calibration.json where that is of this device; else, with measure, by measuring, and
 * kept there where the folder can be written to.  Otherwise OFFLOAD_RATES.  folder NULL: none. */
int calibration_find(const Options *options, const char *folder, bool measure, Rates *rates, Fault *fault);
#endif
