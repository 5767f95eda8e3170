/* What a unit of node tests hands to the runner. */
#ifndef CONFORMANCE_RUNNER_H
#define CONFORMANCE_RUNNER_H
#include "runtime/controller/controller.h"

typedef struct {
    double relative, absolute;
} Tolerance;
typedef struct {
    const char *name;
    const Model *model;
    const Tolerance *outputs; /* beside the program's outputs */
} ConformanceTest;
#endif
