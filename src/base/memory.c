/*
 * Reading of /proc and of the memory cgroup: see memory.h. Not a limit: who allocates from a size in a file asks here first. Called by
 * growing arrays, the segment, the planner and the metrics; zl_memory_pss walks the process's page tables in the kernel, so it is for once a
 * step and not for once a micro-batch.
 */
#include "base/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cgroup.h"
#include "base/file.h"
#include "base/type.h"

#define TEXT_MAX 65536

bool zl_memory_field(const char *text, const char *name, uint64_t *bytes)
{
    size_t n = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, n) != 0 || line[n] != ':')
            continue;
        const char *p = line + n + 1 + strspn(line + n + 1, " \t");
        char *end;
        if (*p < '0' || *p > '9')
            return false;
        uint64_t kib = strtoull(p, &end, 10);
        return strncmp(end, " kB", 3) == 0 && zl_mul_u64(kib, 1024, bytes);
    }
    return false;
}

uint64_t zl_memory_pss(uint64_t *anonymous)
{
    char *text;
    uint64_t pss = 0, file = 0;
    if (anonymous)
        *anonymous = 0;
    if (zl_file_read("/proc/self/smaps_rollup", TEXT_MAX, &text, NULL, NULL) != 0)
        return 0;
    if (!zl_memory_field(text, "Pss", &pss))
        pss = 0;
    /* Pss_File is in kernels since 5.4; without it everything counts as ours, the cautious side. */
    if (!zl_memory_field(text, "Pss_File", &file) || file > pss)
        file = 0;
    if (anonymous)
        *anonymous = pss - file;
    free(text);
    return pss;
}

uint64_t zl_memory_available(void)
{
    char *text;
    uint64_t available = UINT64_MAX;
    if (zl_file_read("/proc/meminfo", TEXT_MAX, &text, NULL, NULL) == 0) {
        if (!zl_memory_field(text, "MemAvailable", &available))
            available = UINT64_MAX;
        free(text);
    }
    uint64_t left = zl_cgroup_memory_left("");
    return left < available ? left : available;
}
