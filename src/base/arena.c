/* Arenas: see arena.h. */
#include "base/arena.h"

#include <stddef.h>
#include <sys/mman.h>

#define ALIGNMENT 64u

int zl_arena_open(struct zl_arena *a, const char *owner, uint64_t size, struct zl_error *err)
{
    *a = (struct zl_arena){.owner = owner, .size = size};
    if (size == 0)
        return 0;
    void *p = MAP_FAILED;
    if (size < (uint64_t)PTRDIFF_MAX)
        p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        a->size = 0;
        return zl_fail(err, ZL_EMEMORY, "%s needs %.1f MiB of memory, which the system refused", owner,
                       (double)size / 1048576.0);
    }
    madvise(p, (size_t)size, MADV_HUGEPAGE);
    a->base = p;
    return 0;
}

void zl_arena_close(struct zl_arena *a)
{
    if (a->base)
        munmap(a->base, (size_t)a->size);
    *a = (struct zl_arena){0};
}

void *zl_arena_take(struct zl_arena *a, uint64_t bytes)
{
    uint64_t need = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (a->base && (need < bytes || need > a->size - a->used))
        return NULL;
    void *p = a->base ? a->base + a->used : NULL;
    if (need < bytes || __builtin_add_overflow(a->used, need, &a->used))
        a->used = UINT64_MAX; /* only while counting: a size that no zl_arena_open accepts */
    if (a->used > a->peak)
        a->peak = a->used;
    return p;
}
