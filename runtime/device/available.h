/* How much memory of the machine a process may still take: what the kernel says is available, or what its control groups leave it,
 * whichever is less.  Limits of both versions of control groups, those of its group and of all above.
 *
 *     available_bytes("")       reads /proc and /sys; another root for tests
 *
 * INT64_MAX where nothing is known. */
#ifndef DEVICE_AVAILABLE_H
#define DEVICE_AVAILABLE_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AVAILABLE_PATH = 4096 };

/* The number after `key` at the beginning of a line of the file, or of its first line where key is ""; -1: there is none ("max"). */
static inline int64_t available_number(const char *path, const char *key)
{
    char line[512];
    int64_t value = -1;
    FILE *file = fopen(path, "r");
    while (file && value < 0 && fgets(line, sizeof line, file)) {
        char *at = line + strlen(key), *end = at;
        if (strncmp(line, key, strlen(key))) continue;
        const long long read = strtoll(at, &end, 10);
        if (end != at && read >= 0) value = read;
    }
    if (file) fclose(file);
    return value;
}

/* What one group leaves: its limit less what it holds; pages of files that nobody has touched lately are given back when wanted. */
static inline int64_t available_of_group(const char *folder, const char *limit_name, const char *used_name, const char *cached_name)
{
    char path[AVAILABLE_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", folder, limit_name);
    const int64_t limit = available_number(path, "");
    snprintf(path, sizeof path, "%s/%s", folder, used_name);
    const int64_t used = available_number(path, "");
    snprintf(path, sizeof path, "%s/memory.stat", folder);
    const int64_t cached = available_number(path, cached_name);
    if (limit < 0 || used < 0) return INT64_MAX;
    const int64_t left = limit - used + (cached > 0 ? cached : 0);
    return left > 0 ? left : 0;
}

/* The least of what the group of the path and those above it leave.  mount: where groups lie; path: "/a/b". */
static inline int64_t available_of_groups(const char *mount, const char *path, const char *limit_name, const char *used_name,
                                          const char *cached_name)
{
    char folder[AVAILABLE_PATH];
    int64_t least = INT64_MAX;
    snprintf(folder, sizeof folder, "%s%s", mount, path);
    while (strlen(folder) >= strlen(mount)) {
        const int64_t left = available_of_group(folder, limit_name, used_name, cached_name);
        if (left < least) least = left;
        char *slash = strrchr(folder, '/');
        if (!slash || slash < folder + strlen(mount)) break;
        *slash = 0;
    }
    return least;
}

static inline int64_t available_in_groups(const char *root)
{
    char path[AVAILABLE_PATH], mount[AVAILABLE_PATH], line[AVAILABLE_PATH];
    int64_t least = INT64_MAX;
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) { /* "0::/a/b", or "4:memory:/a/b" of the first version */
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        const int first = !strcmp(controllers, ":memory");
        if (!first && strcmp(controllers, ":")) continue;
        snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s", root, first ? "/memory" : "");
        const int64_t left = first ? available_of_groups(mount, group, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ")
                                   : available_of_groups(mount, group, "memory.max", "memory.current", "inactive_file ");
        if (left < least) least = left;
    }
    if (file) fclose(file);
    return least;
}

static inline int64_t available_bytes(const char *root)
{
    char path[AVAILABLE_PATH];
    snprintf(path, sizeof path, "%s/proc/meminfo", root);
    const int64_t kibibytes = available_number(path, "MemAvailable:"), in_groups = available_in_groups(root);
    const int64_t on_machine = kibibytes >= 0 ? kibibytes * 1024 : INT64_MAX;
    return on_machine < in_groups ? on_machine : in_groups;
}
#endif
