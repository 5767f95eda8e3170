/* SIGINT, SIGTERM and SIGHUP, held back while a step runs and asked for between steps: no handler, no global flag. */
#ifndef SIGNALS_H
#define SIGNALS_H
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <signal.h>

typedef struct {
    sigset_t before;
} Signals;
void signals_hold(Signals *signals);
int signals_taken(void);                /* the signal that came, or 0 */
const char *signal_name(int taken);     /* "SIGINT" */
void signals_release(Signals *signals); /* as it was before */
#endif
