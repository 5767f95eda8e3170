/* Rates from a file, or measured.  Needs: a device to measure.  Breaks: nothing. */
#define _POSIX_C_SOURCE 200809L
#include "calibration.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../device/rates.h"
#include "json.h"

enum { FILE_BYTES = 4096 };

static bool read_number(const cJSON *object, const char *name, double *value)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    if (!cJSON_IsNumber(item) || !(item->valuedouble > 0)) return false;
    *value = item->valuedouble;
    return true;
}

/* device NULL: of whatever device.  False where the file is not there, is none, or is of another device. */
static bool read_rates(const char *path, const char *device, Rates *rates)
{
    char text[FILE_BYTES];
    FILE *file = fopen(path, "r");
    if (!file) return false;
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    cJSON *object = cJSON_Parse(text);
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(object, "device");
    Rates read;
    bool right = read_number(object, "flops", &read.flops) && read_number(object, "moved", &read.moved) &&
                 read_number(object, "copied", &read.copied);
    right = right && (!device || (cJSON_IsString(name) && !strcmp(name->valuestring, device)));
    cJSON_Delete(object);
    if (right) *rates = read;
    return right;
}

/* Another process may be about to do the same: the file appears whole or not at all. */
static void keep_rates(const char *path, const char *device, const Rates *rates)
{
    char aside[4300];
    snprintf(aside, sizeof aside, "%s.new", path);
    FILE *file = fopen(aside, "w");
    if (!file) return;
    fputs("{\"device\":", file);
    json_string(file, device);
    fprintf(file, ",\"flops\":%.4g,\"moved\":%.4g,\"copied\":%.4g}\n", rates->flops, rates->moved, rates->copied);
    if (fclose(file) || rename(aside, path)) remove(aside);
}

/* On a device of its own, so that nothing of it counts in the run. */
static void measure_rates(const Options *options, const char *path, Rates *rates)
{
    Device *device;
    MeasuredRates measured;
    if (device_open(&device, options->memory_limit)) {
        device_close(device);
        return;
    }
    if (!read_rates(path, device_name(device), rates) && !device_rates(device, &measured) && measured.flops > 0 && measured.moved > 0 &&
        measured.copied > 0) {
        *rates = (Rates){measured.flops, measured.moved, measured.copied};
        keep_rates(path, device_name(device), rates);
        read_rates(path, device_name(device), rates); /* as rounded there */
    }
    device_close(device);
}

int calibration_find(const Options *options, const char *folder, bool measure, Rates *rates, Fault *fault)
{
    char path[4200];
    *rates = OFFLOAD_RATES;
    if (options->calibration) {
        if (read_rates(options->calibration, NULL, rates)) return 0;
        return fault_set(fault, STATUS_USER,
                         "--calibration %s: wanted {\"flops\":N,\"moved\":N,\"copied\":N}, what the machine does in a second; found no such file",
                         options->calibration);
    }
    if (!folder) return 0;
    snprintf(path, sizeof path, "%s/calibration.json", folder);
    if (measure)
        measure_rates(options, path, rates);
    else
        read_rates(path, NULL, rates);
    return 0;
}
