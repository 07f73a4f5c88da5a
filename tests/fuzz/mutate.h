/*
 * Deterministic mutation of a small valid file. Iteration i is a pure function of (seed file, i),
 * so a crash is repeated with `fuzz-… COUNT FIRST`. The mutant lives in a memfd and is opened by
 * its /proc path: no disk, no name.
 */
#ifndef ZL_FUZZ_MUTATE_H
#define ZL_FUZZ_MUTATE_H

#include "tests/unit/format_files.h"

#include <sys/mman.h>

#include "base/rng.h"

struct mutator {
    uint64_t seed, draws;
    const char *const *words; /* texts that mean something in this format, NULL-terminated */
    int fd;
    char path[64];
};

static inline uint64_t draw(struct mutator *m, uint64_t below)
{
    return zl_random_u64(m->seed, ZL_STREAM_TEST, 0, m->draws++) % below;
}

static inline void replace(struct bytes *b, size_t at, size_t remove, const void *p, size_t n)
{
    struct bytes tail = {0};
    if (remove > b->n - at)
        remove = b->n - at;
    put(&tail, b->p + at + remove, b->n - at - remove);
    b->n = at;
    put(b, p, n);
    put(b, tail.p, tail.n);
    bytes_free(&tail);
}

static inline void mutate_once(struct mutator *m, struct bytes *b)
{
    static const uint64_t interesting[] = {
        0,          1,         7,          8,          9,          13,
        31,         32,        64,         255,        256,        4096,
        65535,      65536,     INT32_MAX,  UINT32_MAX, 1ull << 32, 0xFFFFFFFFFFFF,
        1ull << 62, INT64_MAX, 1ull << 63, UINT64_MAX};
    if (!b->n)
        return;
    const size_t at = draw(m, b->n), left = b->n - at;
    uint64_t v = interesting[draw(m, sizeof interesting / sizeof *interesting)];
    size_t words = 0;
    switch (draw(m, 7)) {
    case 0: /* flip a bit */
        b->p[at] ^= (unsigned char)(1u << draw(m, 8));
        break;
    case 1: /* any byte */
        b->p[at] = (unsigned char)draw(m, 256);
        break;
    case 2: { /* a number where one may stand */
        size_t n = (size_t)1 << draw(m, 4);
        memcpy(b->p + at, &v, n < left ? n : left);
        break;
    }
    case 3: /* near a number that stands there */
        if (left >= 8) {
            memcpy(&v, b->p + at, 8);
            v += draw(m, 65) - 32;
            memcpy(b->p + at, &v, 8);
        }
        break;
    case 4: /* drop a piece */
        replace(b, at, 1 + draw(m, 16), "", 0);
        break;
    case 5: { /* repeat a piece elsewhere */
        struct bytes piece = {0};
        size_t n = 1 + draw(m, 48);
        put(&piece, b->p + at, n < left ? n : left);
        replace(b, draw(m, b->n), draw(m, 2) ? piece.n : 0, piece.p, piece.n);
        bytes_free(&piece);
        break;
    }
    case 6: /* a word of the format */
        while (m->words[words])
            words++;
        const char *word = m->words[draw(m, words)];
        replace(b, at, draw(m, 2) ? strlen(word) : 0, word, strlen(word));
        break;
    }
}

/* The i-th mutant of a seed file, left in m->path. header: offset of a u64 that tells the length of
 * what follows it and is put right in three of four mutants, or -1. */
static inline void mutant(struct mutator *m, const struct bytes *file, uint64_t i, long header)
{
    struct bytes b = {0};
    put(&b, file->p, file->n);
    m->seed = i;
    m->draws = 0;
    const uint64_t times = 1 + draw(m, 4);
    for (uint64_t k = 0; k < times; k++)
        mutate_once(m, &b);
    if (!draw(m, 16) && b.n)
        b.n = draw(m, b.n);
    if (header >= 0 && draw(m, 4) && b.n >= 16) {
        uint64_t length;
        memcpy(&length, file->p + header, 8);
        length += b.n - file->n;
        if (length < b.n)
            memcpy(b.p + header, &length, 8);
    }
    assert_int_equal(ftruncate(m->fd, 0), 0);
    assert_int_equal(pwrite(m->fd, b.p, b.n, 0), b.n);
    bytes_free(&b);
}

static inline void mutator_init(struct mutator *m, const char *const *words)
{
    *m = (struct mutator){.words = words, .fd = memfd_create("mutant", MFD_CLOEXEC)};
    assert_true(m->fd >= 0);
    snprintf(m->path, sizeof m->path, "/proc/self/fd/%d", m->fd);
}

/* Every byte that a reader vouches for can be read; the sum keeps the compiler from leaving the
 * reads out. */
static inline uint64_t touch(const void *p, uint64_t n)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += ((const unsigned char *)p)[i];
    return sum;
}

static inline void fuzz_range(int argc, char **argv, uint64_t *first, uint64_t *end)
{
    *first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    *end = *first + (argc > 1 ? strtoull(argv[1], NULL, 10) : 20000);
}

#endif
