/*
 * Merging by byte-pair encoding (Sennrich, Haddow, Birch, "Neural machine translation of rare words
 * with subword units", 2016): of all neighbours that are a known pair, the one with the lowest rank
 * merges first, the leftmost of equals; until none is left. It knows ids only, no text. A short
 * word is scanned for its lowest pair; a long one (a line without blanks, or a whole text where
 * SentencePiece has no words) keeps its pairs in a binary heap over a linked list: O(n log n)
 * whatever the text.
 *
 * A heap entry is rank << 32 | position. It is stale once rank[position] differs, which is checked
 * when it is taken, so nothing is ever removed from the middle of the heap. Called by encode.c, one
 * struct zl_bpe for each call.
 */
#include "config.h"

#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

#define NO_RANK    UINT32_MAX
#define NOWHERE    UINT32_MAX
#define SHORT_WORD 48

static uint32_t first_slot(uint64_t pair, uint32_t slots)
{
    uint64_t h = pair * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 32 ^ h >> 15) & (slots - 1);
}

int zl_merges_reserve(struct zl_merges *m, uint32_t n, struct zl_error *err)
{
    uint32_t slots = 16;
    while (slots < 1u << 31 && slots / 2 < n)
        slots *= 2;
    m->slot = malloc((size_t)slots * sizeof *m->slot);
    if (!m->slot)
        return zl_fail(err, ZL_EMEMORY, "no memory for %u merges", n);
    for (uint32_t i = 0; i < slots; i++)
        m->slot[i].rank = NO_RANK;
    m->slots = slots;
    return 0;
}

static struct zl_merge *find_merge(const struct zl_merges *m, int32_t left, int32_t right)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    uint32_t at = first_slot(pair, m->slots);
    while (m->slot[at].rank != NO_RANK && m->slot[at].pair != pair)
        at = (at + 1) & (m->slots - 1);
    return &m->slot[at];
}

void zl_merges_put(struct zl_merges *m, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    *find_merge(m, left, right) = (struct zl_merge){
        .pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right, .rank = rank, .id = id};
}

static uint32_t look_up(const struct zl_merges *m, int32_t left, int32_t right, int32_t *into)
{
    const struct zl_merge *e = find_merge(m, left, right);
    *into = e->id;
    return e->rank;
}

int zl_bpe_reserve(struct zl_bpe *s, size_t n, struct zl_error *err)
{
    if (n <= s->capacity)
        return 0;
    if (n >= NOWHERE)
        return zl_fail(err, ZL_EINPUT,
                       "a text of %zu symbols without a break is too long to tokenize", n);
    size_t want = n < 256 ? 256 : n + n / 2;
    zl_bpe_free(s);
    s->sym = malloc(want * sizeof *s->sym);
    s->next = malloc(want * sizeof *s->next);
    s->prev = malloc(want * sizeof *s->prev);
    s->rank = malloc(want * sizeof *s->rank);
    s->into = malloc(want * sizeof *s->into);
    if (!s->sym || !s->next || !s->prev || !s->rank || !s->into)
        return zl_fail(err, ZL_EMEMORY, "no memory to tokenize a word of %zu symbols", n);
    s->capacity = want;
    return 0;
}

void zl_bpe_free(struct zl_bpe *s)
{
    free(s->sym);
    free(s->next);
    free(s->prev);
    free(s->rank);
    free(s->into);
    free(s->heap);
    *s = (struct zl_bpe){0};
}

static size_t merge_short(const struct zl_merges *m, struct zl_bpe *s, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++)
        s->rank[i] = look_up(m, s->sym[i], s->sym[i + 1], &s->into[i]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (s->rank[i] < s->rank[best])
                best = i;
        if (s->rank[best] == NO_RANK)
            break;
        s->sym[best] = s->into[best];
        for (size_t i = best + 1; i + 1 < n; i++) {
            s->sym[i] = s->sym[i + 1];
            s->rank[i] = s->rank[i + 1];
            s->into[i] = s->into[i + 1];
        }
        n--;
        if (best > 0)
            s->rank[best - 1] = look_up(m, s->sym[best - 1], s->sym[best], &s->into[best - 1]);
        if (best + 1 < n)
            s->rank[best] = look_up(m, s->sym[best], s->sym[best + 1], &s->into[best]);
    }
    return n;
}

static int heap_push(struct zl_bpe *s, uint64_t e, struct zl_error *err)
{
    if (s->heap_n == s->heap_capacity) {
        size_t want = s->heap_capacity ? s->heap_capacity * 2 : 1024;
        uint64_t *grown = realloc(s->heap, want * sizeof *grown);
        if (!grown)
            return zl_fail(err, ZL_EMEMORY, "no memory for %zu candidates of merges", want);
        s->heap = grown;
        s->heap_capacity = want;
    }
    size_t i = s->heap_n++;
    for (; i > 0 && s->heap[(i - 1) / 2] > e; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = e;
    return 0;
}

static uint64_t heap_pop(struct zl_bpe *s)
{
    uint64_t top = s->heap[0], e = s->heap[--s->heap_n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->heap_n; i = child) {
        if (child + 1 < s->heap_n && s->heap[child + 1] < s->heap[child])
            child++;
        if (s->heap[child] >= e)
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = e;
    return top;
}

/* The pair that starts at `at` changed: look it up again and queue it. */
static int renew(const struct zl_merges *m, struct zl_bpe *s, uint32_t at, struct zl_error *err)
{
    s->rank[at] = NO_RANK;
    if (s->next[at] == NOWHERE)
        return 0;
    s->rank[at] = look_up(m, s->sym[at], s->sym[s->next[at]], &s->into[at]);
    return s->rank[at] == NO_RANK ? 0 : heap_push(s, (uint64_t)s->rank[at] << 32 | at, err);
}

static int64_t merge_long(const struct zl_merges *m, struct zl_bpe *s, size_t n,
                          struct zl_error *err)
{
    s->heap_n = 0;
    for (uint32_t i = 0; i < n; i++) {
        s->prev[i] = i ? i - 1 : NOWHERE;
        s->next[i] = i + 1 < n ? i + 1 : NOWHERE;
    }
    for (uint32_t i = 0; i < n; i++)
        if (renew(m, s, i, err))
            return ZL_EMEMORY;
    while (s->heap_n) {
        uint64_t top = heap_pop(s);
        uint32_t at = (uint32_t)top;
        if (s->rank[at] != top >> 32)
            continue;
        uint32_t gone = s->next[at], after = s->next[gone];
        s->sym[at] = s->into[at];
        s->next[at] = after;
        s->rank[gone] = NO_RANK;
        if (after != NOWHERE)
            s->prev[after] = at;
        if (renew(m, s, at, err) || (s->prev[at] != NOWHERE && renew(m, s, s->prev[at], err)))
            return ZL_EMEMORY;
    }
    size_t left = 0;
    for (uint32_t at = 0; at != NOWHERE; at = s->next[at])
        s->sym[left++] = s->sym[at];
    return (int64_t)left;
}

int64_t zl_bpe_merge(const struct zl_merges *m, struct zl_bpe *s, size_t n, struct zl_error *err)
{
    if (n < 2 || !m->slots)
        return (int64_t)n;
    if (n <= SHORT_WORD)
        return (int64_t)merge_short(m, s, n);
    return merge_long(m, s, n, err);
}
