/*
 * Limits of control groups: see cgroup.h. Not a monitor: each call reads the files anew. A group's limits stand in files of its folder
 * below the mount of its hierarchy; the folder is found from /proc/self/cgroup (which group) and /proc/self/mountinfo (where,
 * and which part of the tree is mounted: a container often sees its own group as the root). Each group above limits too.
 * Called by memory.c and by the placement on cores.
 */
#include "base/cgroup.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

#define TEXT_MAX (1u << 20)

struct folder {
    char path[PATH_MAX]; /* of our group */
    size_t top;          /* length of the mount point in it */
};

static char *slurp(const char *root, const char *path, const char *file)
{
    char whole[PATH_MAX], *text;
    int n = snprintf(whole, sizeof whole, "%s%s%s%s", root, path, file ? "/" : "", file ? file : "");
    if (n < 0 || n >= (int)sizeof whole || zl_file_read(whole, TEXT_MAX, &text, NULL, NULL) != 0)
        return NULL;
    return text;
}

/* Is `word` one of the comma-separated words? */
static bool among(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; p; p = strchr(p, ',')) {
        p += *p == ',';
        if (strncmp(p, word, n) == 0 && (p[n] == ',' || p[n] == '\0'))
            return true;
    }
    return false;
}

/* Our group in the hierarchy of a version 1 controller, or in version 2 (controller NULL), from lines "id:controllers:path". */
static bool find_group(char *text, const char *controller, char group[PATH_MAX])
{
    char *next;
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *list++ = *path++ = '\0';
        if (controller ? !among(list, controller) : *list != '\0')
            continue;
        return snprintf(group, PATH_MAX, "%s", path) < PATH_MAX;
    }
    return false;
}

/* Mount of that hierarchy, from lines "id parent dev root point options ... - type source super-options". */
static bool find_mount(char *text, const char *controller, char base[PATH_MAX], char point[PATH_MAX])
{
    char *next;
    for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next)) {
        char *tail = strstr(line, " - "), type[32], options[1024];
        if (!tail || sscanf(tail, " - %31s %*s %1023s", type, options) != 2 ||
            strcmp(type, controller ? "cgroup" : "cgroup2") != 0 ||
            (controller && !among(options, controller)))
            continue;
        *tail = '\0';
        if (sscanf(line, "%*s %*s %*s %4095s %4095s", base, point) == 2)
            return true;
    }
    return false;
}

static bool find_folder(const char *root, const char *controller, struct folder *f)
{
    char group[PATH_MAX], base[PATH_MAX], point[PATH_MAX];
    char *groups = slurp(root, "/proc/self/cgroup", NULL);
    char *mounts = slurp(root, "/proc/self/mountinfo", NULL);
    bool found = groups && mounts && find_group(groups, controller, group) &&
                 find_mount(mounts, controller, base, point);
    free(groups);
    free(mounts);
    if (!found)
        return false;
    /* Our group's path below what is mounted; the mount point itself when our group lies elsewhere (as seen from here). */
    size_t n = strcmp(base, "/") == 0 ? 0 : strlen(base);
    const char *below = strncmp(group, base, n) == 0 && (group[n] == '/' || !group[n]) ? group + n : "";
    if (strstr(below, "/..") || strcmp(below, "/") == 0)
        below = "";
    f->top = strlen(point);
    return snprintf(f->path, sizeof f->path, "%s%s", point, below) < (int)sizeof f->path;
}

/* To the group above; false at the mount point. */
static bool up(struct folder *f)
{
    char *slash = strrchr(f->path + f->top, '/');
    if (!slash)
        return false;
    *slash = '\0';
    return true;
}

static bool read_number(const char *root, const char *path, const char *file, uint64_t *out)
{
    char *text = slurp(root, path, file);
    bool ok = text && *text >= '0' && *text <= '9';
    if (ok)
        *out = strtoull(text, NULL, 10);
    free(text);
    return ok;
}

bool zl_cgroup_parse_cpu_max(const char *text, double *cpus)
{
    char *end;
    bool max = strncmp(text, "max", 3) == 0;
    uint64_t quota = 0;
    if (max)
        end = (char *)text + 3;
    else if (*text >= '0' && *text <= '9')
        quota = strtoull(text, &end, 10);
    else
        return false;
    if (*end != ' ' || end[1] < '0' || end[1] > '9')
        return false;
    uint64_t period = strtoull(end + 1, &end, 10);
    if ((*end != '\0' && *end != '\n') || period == 0 || (!max && quota == 0))
        return false;
    *cpus = max ? 0 : (double)quota / (double)period;
    return true;
}

static double narrower(double a, double b)
{
    return a <= 0 ? b : b <= 0 || a < b ? a : b;
}

double zl_cgroup_cpus(const char *root)
{
    struct folder f;
    double cpus = 0;
    if (find_folder(root, NULL, &f))
        do {
            double one = 0;
            char *text = slurp(root, f.path, "cpu.max");
            if (text && zl_cgroup_parse_cpu_max(text, &one))
                cpus = narrower(cpus, one);
            free(text);
        } while (up(&f));
    if (find_folder(root, "cpu", &f))
        do {
            uint64_t quota, period; /* no quota: -1 */
            if (read_number(root, f.path, "cpu.cfs_quota_us", &quota) && quota > 0 &&
                read_number(root, f.path, "cpu.cfs_period_us", &period) && period > 0)
                cpus = narrower(cpus, (double)quota / (double)period);
        } while (up(&f));
    return cpus;
}

/* File cache that the kernel drops before it refuses: the line "name value" of memory.stat. */
static uint64_t droppable(const char *root, const char *path, const char *name)
{
    char *text = slurp(root, path, "memory.stat"), *next;
    size_t n = strlen(name);
    uint64_t value = 0;
    if (text)
        for (char *line = strtok_r(text, "\n", &next); line; line = strtok_r(NULL, "\n", &next))
            if (strncmp(line, name, n) == 0 && line[n] == ' ')
                value = strtoull(line + n + 1, NULL, 10);
    free(text);
    return value;
}

uint64_t zl_cgroup_memory_left(const char *root)
{
    static const struct {
        const char *controller, *limit, *used, *cache;
    } version[] = {
        {NULL, "memory.max", "memory.current", "inactive_file"},
        {"memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
    };
    uint64_t left = UINT64_MAX;
    for (int v = 0; v < 2; v++) {
        struct folder f;
        if (!find_folder(root, version[v].controller, &f))
            continue;
        do {
            uint64_t limit, used; /* no limit: "max", or a number near 2^63 */
            if (!read_number(root, f.path, version[v].limit, &limit) || limit > INT64_MAX / 2 ||
                !read_number(root, f.path, version[v].used, &used))
                continue;
            uint64_t cache = droppable(root, f.path, version[v].cache);
            used = cache < used ? used - cache : 0;
            if (used >= limit)
                left = 0;
            else if (limit - used < left)
                left = limit - used;
        } while (up(&f));
    }
    return left;
}
