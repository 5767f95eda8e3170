/* Checkpoints.  Needs: weights.  Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include "checkpoint.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "weights.h"

static const char FORMAT[] = "disc-gen checkpoint 1";
enum { NUMBERS = 6, TEXTS = NUMBERS + OPTION_HYPERS + 2, KEYS = 3 + TEXTS };
static const char *const number_names[NUMBERS] = {"step", "updates", "skipped", "seed", "batch_size", "total"};

static void numbers_of(Place *place, int64_t *out[NUMBERS])
{
    int64_t *const numbers[NUMBERS] = {&place->step, &place->updates,    &place->skipped,
                                       &place->seed, &place->batch_size, &place->total};
    memcpy(out, numbers, sizeof numbers);
}

static const char LAST[] = "checkpoint.safetensors", BEFORE[] = "checkpoint.before.safetensors";
static int path_of(const char *folder, const char *name, char *path, size_t size, Fault *fault)
{
    int length = snprintf(path, size, "%s/%s", folder, name);
    return length < (int)size ? 0 : fault_set(fault, STATUS_USER, "--checkpoint: too long a path");
}

static void remove_partial(const char *folder)
{
    static const char half[] = "checkpoint.safetensors.partial.";
    char path[4096];
    DIR *listing = opendir(folder);
    for (const struct dirent *entry; listing && (entry = readdir(listing));)
        if (!strncmp(entry->d_name, half, sizeof half - 1) && snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) < (int)sizeof path) unlink(path);
    if (listing) closedir(listing);
}

/* A lock of the folder itself: nothing is left where a run is killed.  File systems that have none do without. */
int checkpoint_claim(const char *folder, int *claim, Fault *fault)
{
    if (*claim >= 0) return 0;
    *claim = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*claim < 0) return 0;
    if (!flock(*claim, LOCK_EX | LOCK_NB)) {
        remove_partial(folder);
        return 0;
    }
    if (errno != EWOULDBLOCK) return 0;
    checkpoint_leave(claim);
    return fault_set(fault, STATUS_USER, "--checkpoint %s: another run writes there; name another folder, or wait for its end", folder);
}

void checkpoint_leave(int *claim)
{
    if (*claim >= 0) close(*claim);
    *claim = -1;
}

bool checkpoint_is_there(const char *folder)
{
    Fault none = {0};
    char path[4096];
    return !path_of(folder, LAST, path, sizeof path, &none) && !access(path, F_OK);
}

/* A second name, where the file system has them: there is a checkpoint at every moment. */
int checkpoint_set_aside(const char *folder, Fault *fault)
{
    char last[4096], before[4096];
    int status = path_of(folder, LAST, last, sizeof last, fault);
    if (!status) status = path_of(folder, BEFORE, before, sizeof before, fault);
    if (status || access(last, F_OK)) return status;
    unlink(before);
    if (!link(last, before) || !rename(last, before)) return 0;
    return fault_set(fault, STATUS_USER, "%s cannot be kept as %s: %s", last, before, strerror(errno));
}

int checkpoint_write(Session *session, const char *folder, const Place *place, Fault *fault)
{
    const Model *m = session->model;
    char path[4096], texts[TEXTS][40];
    const char *keys[KEYS] = {"format", "model", "settings"}, *values[KEYS] = {FORMAT, m->name, m->settings ? m->settings : ""};
    int64_t *numbers[NUMBERS];
    Place copy = *place;
    copy.updates = session->updates;
    numbers_of(&copy, numbers);
    int n = 3, text = 0;
    for (int i = 0; i < NUMBERS; i++, n++, text++) {
        snprintf(texts[text], sizeof texts[text], "%" PRId64, *numbers[i]);
        keys[n] = number_names[i], values[n] = texts[text];
    }
    for (int i = 0; i < OPTION_HYPERS; i++) {
        if (!session_has_hyper(m, option_hyper_names[i])) continue;
        snprintf(texts[text], sizeof texts[text], "%.17g", place->hypers[i]);
        keys[n] = option_hyper_names[i], values[n++] = texts[text++];
    }
    if (session->loss_scale) {
        snprintf(texts[text], sizeof texts[text], "%.17g", session->loss_scale);
        keys[n] = "loss_scale", values[n++] = texts[text++];
        snprintf(texts[text], sizeof texts[text], "%" PRId64, session->steps_at_scale);
        keys[n] = "steps_at_scale", values[n++] = texts[text++];
    }
    int status = path_of(folder, LAST, path, sizeof path, fault);
    return status ? status : state_save(session, path, true, keys, values, n, fault);
}

static int foreign(const TensorFile *file, const char *what, Fault *fault)
{
    return fault_set(fault, STATUS_USER, "%s: no checkpoint of this trainer: %s", file->path, what);
}

static int read_place(const TensorFile *file, const Model *m, Place *place, Fault *fault)
{
    int64_t *numbers[NUMBERS];
    const char *format = tensor_metadata(file, "format"), *name = tensor_metadata(file, "model");
    memset(place, 0, sizeof *place);
    numbers_of(place, numbers);
    if (!format || strcmp(format, FORMAT)) return foreign(file, "its metadata does not say so", fault);
    if (!name || strcmp(name, m->name))
        return fault_set(fault, STATUS_USER, "%s: no checkpoint of this trainer: it is of the model \"%s\", and this one is \"%s\"; where only its file was renamed, "
                         "generate the program from a file of the former name", file->path, name ? name : "", m->name);
    for (int i = 0; i < NUMBERS; i++) {
        const char *value = tensor_metadata(file, number_names[i]);
        char *end;
        if (!value || !*value) return foreign(file, "its metadata is incomplete", fault);
        *numbers[i] = strtoll(value, &end, 10);
        if (*end || *numbers[i] < 0) return foreign(file, "its metadata cannot be read", fault);
    }
    const char *scale = tensor_metadata(file, "loss_scale"), *steps = tensor_metadata(file, "steps_at_scale");
    if (session_has_hyper(m, "loss_scale")) {
        place->loss_scale = scale ? strtod(scale, NULL) : 0;
        place->steps_at_scale = steps ? strtoll(steps, NULL, 10) : -1;
        if (!(place->loss_scale > 0) || place->steps_at_scale < 0) return foreign(file, "its metadata has no loss scale", fault);
    }
    for (int i = 0; i < OPTION_HYPERS; i++) {
        const char *value = tensor_metadata(file, option_hyper_names[i]);
        place->hyper_given[i] = value && session_has_hyper(m, option_hyper_names[i]);
        if (place->hyper_given[i]) place->hypers[i] = strtod(value, NULL);
    }
    return 0;
}

int checkpoint_open(TensorFile *file, const Model *m, const char *folder, Place *place, Fault *fault)
{
    char path[4096];
    struct stat there;
    int status = path_of(folder, LAST, path, sizeof path, fault);
    if (status) return status;
    if (stat(path, &there))
        return fault_set(fault, STATUS_USER, "--resume: %s: %s; without --resume training begins anew", path, strerror(errno));
    status = tensor_file_open(file, path, fault);
    if (status) return status;
    status = read_place(file, m, place, fault);
    if (status) tensor_file_close(file);
    return status;
}

int checkpoint_load(Session *session, TensorFile *file, const Place *place, Fault *fault)
{
    const Model *m = session->model;
    int status = weights_load(session, file, false, fault);
    for (int i = 0; i < session->n_states && !status; i++) {
        FileTensor *found = tensor_find(file, m->states[i].name);
        if (!found) return foreign(file, "it lacks a state of the optimizer", fault);
        status = weight_from_file(session, session->states[i], &m->weights[m->states[i].weight], file, found, fault);
    }
    session->updates = place->updates;
    session->loss_scale = place->loss_scale;
    session->steps_at_scale = place->steps_at_scale;
    return status;
}
