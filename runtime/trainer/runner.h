/* What a generated runner's main.c includes: runner_main. */
#ifndef RUNNER_H
#define RUNNER_H
#include "trainer.h"
#endif
