/*
 * Foreign thread settings: see environment.h. Not a general cleaner: only what changes how many threads run, where, and how they wait.
 *
 * libgomp reads its variables in its constructor, before main. Some can be undone later by calls (the number of threads), some not:
 * OMP_THREAD_LIMIT, and OMP_PROC_BIND, which binds the first thread and so loses the mask that we were started with. Hence the new
 * start, from .preinit_array, which the loader runs before all constructors. It also lets us set GOMP_SPINCOUNT (KMP_BLOCKTIME
 * with LLVM's library), for which there is no call either.
 *
 * Invariant: at most one new start, because a marker carries the process id, which exec keeps; a child that inherits the
 * marker has another id. Called by the loader; the note is for main.
 */
#define _GNU_SOURCE
#include "pipe/environment.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* An idle team waits for its next region awake for about 0.3 ms, long enough for the serial pieces between regions of a step, then
 * sleeps; the default is 5 to 10 ms (libgomp) or 200 ms (LLVM) of a core that another stage could use. */
#define SPIN      "GOMP_SPINCOUNT=10000"
#define BLOCKTIME "KMP_BLOCKTIME=1"

#define MARKER      "ZEROLOCK_OVERRIDDEN="
#define MARKER_MAX  200
#define ENTRIES_MAX 4096

/* Sanitizers have not started when this runs, so their hooks must not be called. */
#define EARLY __attribute__((no_sanitize("address", "thread", "undefined")))

static char marker[sizeof MARKER + 16 + MARKER_MAX];
static char *entries[ENTRIES_MAX];

EARLY static bool begins(const char *text, const char *with)
{
    while (*with && *text == *with)
        text++, with++;
    return !*with;
}

EARLY static bool same(const char *a, const char *b)
{
    return begins(a, b) && begins(b, a);
}

EARLY static bool is_foreign(const char *entry)
{
    return begins(entry, "OMP_") || begins(entry, "GOMP_") || begins(entry, "KMP_") ||
           begins(entry, "BLIS_");
}

EARLY static bool is_ours(const char *entry)
{
    return same(entry, SPIN) || same(entry, BLOCKTIME);
}

/* The marker's start for this process: MARKER, its number, ":". Returns the length. */
EARLY static size_t begin_marker(void)
{
    char digits[24];
    size_t n = 0, d = 0;
    for (const char *p = MARKER; *p; p++)
        marker[n++] = *p;
    for (long id = syscall(SYS_getpid); id; id /= 10)
        digits[d++] = (char)('0' + id % 10);
    while (d)
        marker[n++] = digits[--d];
    marker[n++] = ':';
    marker[n] = '\0';
    return n;
}

/* Add the name of a variable; one that does not fit ends the list with "..". */
EARLY static size_t add_name(size_t n, const char *entry)
{
    size_t at = n;
    if (marker[n - 1] != ':')
        marker[at++] = ',';
    for (; *entry && *entry != '='; entry++) {
        if (at + 4 > sizeof marker) {
            marker[n] = '\0';
            return n;
        }
        marker[at++] = *entry;
    }
    marker[at] = '\0';
    return at;
}

EARLY void zl_cores_clean_environment(int argc, char **argv, char **envp)
{
    (void)argc;
    size_t n = begin_marker(), kept = 0, ours = 0, total = 0;
    bool again = false;
    for (char **e = envp; *e; e++, total++) {
        again |= begins(*e, marker);
        if (is_ours(*e))
            ours++;
        else if (is_foreign(*e))
            n = add_name(n, *e);
    }
    bool foreign = marker[n - 1] != ':';
    if (again || (!foreign && ours == 2) || total + 4 > ENTRIES_MAX)
        goto in_place;

    for (char **e = envp; *e; e++)
        if (!is_foreign(*e) && !begins(*e, MARKER))
            entries[kept++] = *e;
    entries[kept++] = (char[]){SPIN};
    entries[kept++] = (char[]){BLOCKTIME};
    entries[kept++] = marker;
    entries[kept] = NULL;
    /* By its own path and not as /proc/self/exe, which would make "exe" of the name that ps shows. */
    static char path[PATH_MAX];
    long length = syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = '\0';
        syscall(SYS_execve, path, argv, entries);
    }

in_place:
    kept = 0;
    for (char **e = envp; *e; e++)
        if (!is_foreign(*e) || is_ours(*e))
            envp[kept++] = *e;
    envp[kept] = NULL;
    if (!foreign)
        marker[0] = '\0';
}

void zl_cores_foreign_settings(char note[256])
{
    /* The list of the first start, or of one that could not start again. */
    const char *list = getenv("ZEROLOCK_OVERRIDDEN");
    char id[24];
    int n = snprintf(id, sizeof id, "%ld:", (long)getpid());
    if (!list || strncmp(list, id, (size_t)n) != 0)
        list = marker[0] ? marker + strlen(MARKER) : NULL;
    note[0] = '\0';
    if (list && (list = strchr(list, ':')) && list[1])
        snprintf(note, 256, "the plan decides about threads: ignoring %s", list + 1);
}
