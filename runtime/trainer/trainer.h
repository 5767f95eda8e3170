/* The programs that a generated main.c calls.  argv as main got it; returns the exit status. */
#ifndef TRAINER_H
#define TRAINER_H
#include "../controller/controller.h"
#ifdef __cplusplus
extern "C" {
#endif
int trainer_main(const Model *m, int argc, char **argv);
int runner_main(const Model *m, int argc, char **argv);
#ifdef __cplusplus
}
#endif
#endif
