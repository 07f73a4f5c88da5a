/*
 * The vocabulary: id -> text by index, text -> id by a hash with open addressing. Not the merges
 * (bpe.c). Sized once, from counts the reader took from the file; ids may have holes. Called by the
 * two readers, then only read.
 */
#include "config.h"

#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash_text(const char *s, size_t n)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ n, w;
    while (n >= 8) {
        memcpy(&w, s, 8);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
        s += 8;
        n -= 8;
    }
    if (n) {
        w = 0;
        memcpy(&w, s, n);
        h = (h ^ w) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 29);
}

int zl_vocab_reserve(struct zl_vocab *v, uint32_t n, size_t bytes, struct zl_error *err)
{
    uint32_t slots = 16;
    while (slots < 1u << 30 && slots / 2 < n)
        slots *= 2;
    v->blob_size = bytes + n; /* a NUL behind each */
    v->piece = calloc(n ? n : 1, sizeof *v->piece);
    v->slot = calloc(slots, sizeof *v->slot);
    v->blob = malloc(v->blob_size ? v->blob_size : 1);
    if (!v->piece || !v->slot || !v->blob)
        return zl_fail(err, ZL_EMEMORY, "no memory for a vocabulary of %u tokens", n);
    v->n = n;
    v->slots = slots;
    return 0;
}

static uint32_t *find_slot(const struct zl_vocab *v, const char *s, size_t len)
{
    uint32_t at = (uint32_t)hash_text(s, len) & (v->slots - 1);
    for (;; at = (at + 1) & (v->slots - 1)) {
        uint32_t *slot = &v->slot[at];
        if (!*slot)
            return slot;
        const struct zl_piece *p = &v->piece[*slot - 1];
        if (p->len == len && memcmp(p->s, s, len) == 0)
            return slot;
    }
}

bool zl_vocab_put(struct zl_vocab *v, uint32_t id, const char *s, size_t len, uint32_t flags)
{
    if (id >= v->n || (v->piece[id].flags & ZL_PIECE_PRESENT) || len >= v->blob_size - v->blob_n)
        return false;
    uint32_t *slot = find_slot(v, s, len);
    if (*slot)
        return false;
    *slot = id + 1;
    struct zl_piece *p = &v->piece[id];
    char *copy = v->blob + v->blob_n;
    memcpy(copy, s, len);
    copy[len] = '\0';
    v->blob_n += len + 1;
    *p = (struct zl_piece){.s = copy, .len = (uint32_t)len, .flags = flags | ZL_PIECE_PRESENT};
    return true;
}

int32_t zl_vocab_find(const struct zl_vocab *v, const char *s, size_t len)
{
    if (!v->slots)
        return -1;
    return (int32_t)*find_slot(v, s, len) - 1;
}

void zl_vocab_free(struct zl_vocab *v)
{
    free(v->piece);
    free(v->slot);
    free(v->blob);
    *v = (struct zl_vocab){0};
}
