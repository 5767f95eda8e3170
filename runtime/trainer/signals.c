/* Signals between steps.  Needs: POSIX.  Breaks: nothing once released. */
#include "signals.h"
#include <time.h>

static void those(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGHUP);
}

void signals_hold(Signals *signals)
{
    sigset_t set;
    those(&set);
    pthread_sigmask(SIG_BLOCK, &set, &signals->before);
}

int signals_taken(void)
{
    sigset_t set;
    struct timespec at_once = {0, 0};
    those(&set);
    int taken = sigtimedwait(&set, NULL, &at_once);
    return taken > 0 ? taken : 0;
}

const char *signal_name(int taken)
{
    return taken == SIGINT ? "SIGINT" : taken == SIGTERM ? "SIGTERM" : "SIGHUP";
}

void signals_release(Signals *signals)
{
    pthread_sigmask(SIG_SETMASK, &signals->before, NULL);
}
