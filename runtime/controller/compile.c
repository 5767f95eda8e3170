/* Starts make, waits for it, ends it.  Needs: nice and make in PATH, or says so.  Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include "compile.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../device/clock.h"

/* Waits for the process until the deadline, then ends it and what it started. */
static int wait_until(pid_t child, double deadline, bool (*quit)(void *), void *context, bool *late)
{
    const struct timespec pause = {0, 20000000};
    int status = 0;
    *late = false;
    while (waitpid(child, &status, WNOHANG) == 0) {
        if ((quit && quit(context)) || seconds_now() > deadline) {
            *late = true;
            kill(-child, SIGKILL);
            waitpid(child, &status, 0);
            return status;
        }
        nanosleep(&pause, NULL);
    }
    return status;
}

/* In a process group of its own, its output thrown away: it may be ended with all it started. */
static int spawn(char *const *arguments, pid_t *child)
{
    extern char **environ;
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&files)) return ENOMEM;
    if (posix_spawnattr_init(&attributes)) {
        posix_spawn_file_actions_destroy(&files);
        return ENOMEM;
    }
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    int error = posix_spawnp(child, arguments[0], &files, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

void compile_target(const Compile *compile, bool (*quit)(void *context), void *context, char *outcome, size_t size)
{
    char folder[4200], target[64], more[1000], device[64];
    snprintf(folder, sizeof folder, "%s", compile->folder);
    snprintf(target, sizeof target, "%s", compile->target);
    snprintf(more, sizeof more, "%s", compile->more);
    snprintf(device, sizeof device, "DEVICE=%s", compile->device);
    char nice[] = "nice", n[] = "-n", low[] = "10", make[] = "make", silent[] = "-s", change[] = "-C";
    char *const arguments[] = {nice, n, low, make, silent, change, folder, target, device, *more ? more : NULL, NULL};
    pid_t child;
    bool late;
    int error = spawn(arguments, &child);
    outcome[0] = 0;
    if (error) {
        snprintf(outcome, size, "%s cannot be started: %s", arguments[0], strerror(error));
        return;
    }
    int status = wait_until(child, seconds_now() + compile->limit, quit, context, &late);
    if (late)
        snprintf(outcome, size, "the compiler took more than %d s", compile->limit);
    else if (WIFSIGNALED(status))
        snprintf(outcome, size, "the compiler was ended by signal %d", WTERMSIG(status));
    else if (WEXITSTATUS(status) == 127 || WEXITSTATUS(status) == 126)
        snprintf(outcome, size, "make is not here");
    else if (WEXITSTATUS(status))
        snprintf(outcome, size, "make ended with status %d", WEXITSTATUS(status));
}
