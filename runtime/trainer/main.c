/* The generated programs' main functions: options, then one of train, evaluate, check gradients, plan, run; faults to stderr.
 * Needs and breaks nothing. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "programs.h"
#include "trainer.h"

/* Standard streams that are closed stay so: the next file opened would take their place, and get what is said. */
static void hold_standard_streams(void)
{
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
        if (fcntl(stream, F_GETFD) < 0 && open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY) != stream) return;
}

/* The folder of the executable. */
static void find_folder(const char *argv0, char *out, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", out, size - 1);
    if (length > 0)
        out[length] = 0;
    else
        snprintf(out, size, "%s", argv0 ? argv0 : "");
    char *slash = strrchr(out, '/');
    if (slash)
        *slash = 0;
    else
        snprintf(out, size, ".");
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static int dispatch(const Model *m, const Options *o, int program, const char *folder, Fault *fault)
{
    if (program == FOR_RUNNER) return run_program_once(m, o, folder, fault);
    if (o->plan) return plan_program(m, o, folder, fault);
    if (o->check_gradients) return check_gradients_program(m, o, folder, fault);
    return o->evaluate ? evaluate_program(m, o, folder, fault) : train_program(m, o, folder, fault);
}

static int program_main(const Model *m, int program, int argc, char **argv)
{
    const char *name = argc > 0 ? base_name(argv[0]) : program == FOR_RUNNER ? "runner" : "trainer";
    char folder[4096];
    Options options;
    Fault *fault = calloc(1, sizeof *fault);
    if (!fault) return STATUS_FAULT;
    hold_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a write that fails is reported, and does not end a run without its checkpoint */
    signal(SIGXFSZ, SIG_IGN);
    find_folder(argc > 0 ? argv[0] : NULL, folder, sizeof folder);
    int status = options_parse(&options, m, program, argc, argv, fault);
    if (!status && options.help)
        options_help(m, program, name);
    else if (!status)
        status = dispatch(m, &options, program, folder, fault);
    const bool told = !fflush(stdout) && !ferror(stdout);
    if (!status && !told && (options.help || options.plan || options.evaluate || options.check_gradients))
        status = fault_set(fault, STATUS_USER, "standard output cannot be written: %s", strerror(errno));
    options_free(&options);
    if (status && fault->text[0]) fprintf(stderr, "%s: %s\n", name, fault->text);
    free(fault);
    return status;
}

int trainer_main(const Model *m, int argc, char **argv)
{
    return program_main(m, FOR_TRAINER, argc, argv);
}

int runner_main(const Model *m, int argc, char **argv)
{
    return program_main(m, FOR_RUNNER, argc, argv);
}
