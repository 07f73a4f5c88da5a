/*
 * Arenas: one mapping reserved up front, cut into pieces front to back, given back as a whole or to a mark. Everything a
 * run needs comes from arenas before its first step; an arena has one owner and is not thread-safe.
 */
#ifndef ZL_BASE_ARENA_H
#define ZL_BASE_ARENA_H

#include <stdint.h>

#include "base/error.h"

struct zl_arena {
    const char *owner; /* "stage 1 activations": named in errors and in the plan */
    unsigned char *base;
    uint64_t size, used, peak;
};

/* Map `size` bytes (anonymous, zero, advised to use huge pages; the advice may fail silently). ZL_EMEMORY names the owner. */
int zl_arena_open(struct zl_arena *a, const char *owner, uint64_t size, struct zl_error *err);
void zl_arena_close(struct zl_arena *a);

/* `bytes` bytes aligned to 64; NULL when they do not fit: the plan was wrong, which is our own bug. With base == NULL and
 * size == 0 the arena only counts (used, peak) and returns NULL: the planner runs the same code to learn the size.
 * Counting stops at UINT64_MAX, which zl_arena_open refuses, instead of wrapping. */
void *zl_arena_take(struct zl_arena *a, uint64_t bytes);

static inline uint64_t zl_arena_mark(const struct zl_arena *a)
{
    return a->used;
}

/* Everything taken since the mark is free again. */
static inline void zl_arena_release(struct zl_arena *a, uint64_t mark)
{
    a->used = mark;
}

#endif
