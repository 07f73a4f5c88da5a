/*
 * Encoding: the order of work of tokenizer_impl.h for one text, and the symbols of one word. Not
 * the cutting (added.c, pretokenize.c) nor the merging (bpe.c). Invariant: the tokenizer is only
 * read; what changes lives in struct zl_encoder. No cache of words: merging a short word takes
 * about as long as looking it up would.
 */
#include "config.h"

#include "format/quote.h"
#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

int zl_ids_add(struct zl_ids *ids, int32_t id, struct zl_error *err)
{
    if (ids->n == ids->capacity) {
        size_t want = ids->capacity ? ids->capacity * 2 : 64;
        int32_t *grown =
            want > SIZE_MAX / sizeof *grown ? NULL : realloc(ids->id, want * sizeof *grown);
        if (!grown)
            return zl_fail(err, ZL_EMEMORY, "no memory for %zu token ids", want);
        ids->id = grown;
        ids->capacity = want;
    }
    ids->id[ids->n++] = id;
    return 0;
}

void zl_ids_free(struct zl_ids *ids)
{
    free(ids->id);
    *ids = (struct zl_ids){0};
}

static int32_t find_symbol(const struct zl_tokenizer *t, const char *s, size_t n)
{
    if (n == 1 && (unsigned char)s[0] < 128)
        return t->ascii_id[(unsigned char)s[0]];
    int32_t id = zl_vocab_find(&t->vocab, s, n);
    return id >= 0 && (t->vocab.piece[id].flags & ZL_PIECE_UNMERGED) ? -1 : id;
}

/* The symbols of a word whose tokens are characters. A character without a token becomes its bytes
 * when every one of them has a token, else the unknown token (a run of them one, with fuse_unk). As
 * in the reference an unknown token is put down only when the next known character comes, so bytes
 * may overtake it. */
static size_t symbols_of_chars(const struct zl_tokenizer *t, const char *s, size_t n, int32_t *sym)
{
    size_t count = 0;
    bool unknown = false;
    for (size_t i = 0, step; i < n; i += step) {
        step = (size_t)zl_utf8_step(s + i, n - i);
        int32_t id = find_symbol(t, s + i, step);
        if (id >= 0) {
            if (unknown)
                sym[count++] = t->unk;
            unknown = false;
            sym[count++] = id;
            continue;
        }
        bool bytes = t->byte_fallback;
        for (size_t j = 0; j < step && bytes; j++)
            bytes = t->byte_id[(unsigned char)s[i + j]] >= 0;
        if (bytes) {
            for (size_t j = 0; j < step; j++)
                sym[count++] = t->byte_id[(unsigned char)s[i + j]];
        } else if (t->unk >= 0) {
            if (unknown && !t->fuse_unk)
                sym[count++] = t->unk;
            unknown = true;
        }
    }
    if (unknown)
        sym[count++] = t->unk;
    return count;
}

/* The symbols of a word whose tokens are bytes. A byte without a token (SmolLM2 has none for some
 * control characters) becomes the unknown token, or nothing where there is none, as in the
 * reference. */
static size_t symbols_of_bytes(const struct zl_tokenizer *t, const char *s, size_t n, int32_t *sym)
{
    size_t count = 0;
    bool unknown = false;
    for (size_t i = 0; i < n; i++) {
        int32_t id = t->byte_id[(unsigned char)s[i]];
        if (id < 0)
            id = t->unk;
        bool is_unknown = t->byte_id[(unsigned char)s[i]] < 0;
        if (id >= 0 && !(is_unknown && unknown && t->fuse_unk))
            sym[count++] = id;
        unknown = is_unknown;
    }
    return count;
}

/* The id of the word as a whole, or -1. */
static int whole_word(struct zl_encoder *e, const char *s, size_t n, int32_t *id)
{
    const struct zl_tokenizer *t = e->t;
    if (t->byte_level) {
        e->mapped.n = 0;
        for (size_t i = 0; i < n; i++) {
            const char *c = t->byte_char[(unsigned char)s[i]];
            int rc = zl_text_add(&e->mapped, c, strlen(c), e->err);
            if (rc)
                return rc;
        }
        s = e->mapped.s;
        n = e->mapped.n;
    }
    *id = find_symbol(t, s, n);
    return 0;
}

/* A text without words (SentencePiece has none) is one long word, and merging it as a whole means a
 * heap as large as the text. No merge joins two characters that no token has side by side, so the
 * text may be merged in parts that are cut between such: here before the mark that stands for a
 * blank, where no token has it behind a character with the same last byte. */
static const char mark[] = "\xe2\x96\x81"; /* U+2581 */

void zl_tok_find_cuts(struct zl_tokenizer *t)
{
    int32_t id = find_symbol(t, mark, 3);
    t->cuts_at_marks = !t->byte_level && id >= 0;
    for (uint32_t i = 0; i < t->vocab.n && t->cuts_at_marks; i++) {
        const struct zl_piece *p = &t->vocab.piece[i];
        if (!(p->flags & ZL_PIECE_PRESENT))
            continue;
        const char *s = p->s, *end = s + p->len;
        while (s < end && (s = memmem(s, (size_t)(end - s), mark, 3))) {
            if (s > p->s)
                t->mark_follows[(unsigned char)s[-1]] = true;
            s += 3;
        }
    }
    /* A byte token and the unknown token stand for other characters than they are written with. */
    const struct zl_piece *unk = t->unk >= 0 ? &t->vocab.piece[t->unk] : NULL;
    if (t->mark_follows['>'] ||
        (unk && unk->len && t->mark_follows[(unsigned char)unk->s[unk->len - 1]]))
        t->cuts_at_marks = false;
}

/* Length of the part of s[0..n) to merge next. */
static size_t next_part(const struct zl_tokenizer *t, const char *s, size_t n)
{
    for (const char *p = s;
         t->cuts_at_marks && (p = memmem(p + 1, n - (size_t)(p + 1 - s), mark, 3));)
        if (!t->mark_follows[(unsigned char)p[-1]])
            return (size_t)(p - s);
    return n;
}

static int encode_part(struct zl_encoder *e, const char *s, size_t n)
{
    const struct zl_tokenizer *t = e->t;
    int rc = zl_bpe_reserve(&e->bpe, n, e->err);
    if (rc)
        return rc;
    size_t count = t->byte_level ? symbols_of_bytes(t, s, n, e->bpe.sym)
                                 : symbols_of_chars(t, s, n, e->bpe.sym);
    int64_t left = zl_bpe_merge(&t->merges, &e->bpe, count, e->err);
    if (left < 0)
        return (int)left;
    for (int64_t i = 0; i < left && !rc; i++)
        rc = zl_ids_add(e->ids, e->bpe.sym[i], e->err);
    return rc;
}

int zl_encode_word(struct zl_encoder *e, const char *s, size_t n)
{
    int rc = 0;
    if (e->t->ignore_merges && n <= ZL_TOK_MAX_SURFACE) {
        int32_t id;
        if ((rc = whole_word(e, s, n, &id)) != 0)
            return rc;
        bool special = id >= 0 && (e->t->vocab.piece[id].flags & ZL_PIECE_SPECIAL);
        if (id >= 0 && !(special && (e->flags & ZL_ENCODE_PLAIN)))
            return zl_ids_add(e->ids, id, e->err);
    }
    for (size_t part; n && !rc; s += part, n -= part) {
        part = next_part(e->t, s, n);
        rc = encode_part(e, s, part);
    }
    return rc;
}

struct pieces { /* what the cutting at added tokens calls back with */
    struct zl_encoder *e;
    struct zl_text buffer[2];
};

static int after_normalized(void *ctx, const char *s, size_t n, bool first)
{
    struct pieces *p = ctx;
    return zl_pretokenize(p->e, s, n, first);
}

static int after_raw(void *ctx, const char *s, size_t n, bool first)
{
    struct pieces *p = ctx;
    struct zl_encoder *e = p->e;
    const char *out;
    size_t out_n;
    int rc = zl_normalize(e->t, s, n, p->buffer, e->md, &out, &out_n, e->err);
    if (rc)
        return rc;
    return zl_added_split(e->t->normalized, out, out_n, first, e->flags & ZL_ENCODE_PLAIN, e->ids,
                          after_normalized, p, e->err);
}

/* With ZL_ENCODE_PLAIN no special token may come out of the text. Only an odd vocabulary, whose
 * merges spell one, gets here. */
static int check_plain(const struct zl_tokenizer *t, const struct zl_ids *ids, size_t from,
                       struct zl_error *err)
{
    for (size_t i = from; i < ids->n; i++) {
        int32_t id = ids->id[i];
        if ((t->vocab.piece[id].flags & ZL_PIECE_SPECIAL) && id != t->unk)
            return zl_fail(err, ZL_EINPUT,
                           "%s: the merges make the special token \"%s\" (id %d) out of plain text",
                           t->source, zl_quote(t->vocab.piece[id].s).s, id);
    }
    return 0;
}

int zl_tokenizer_encode(const struct zl_tokenizer *t, const char *text, size_t len, unsigned flags,
                        struct zl_ids *ids, struct zl_error *err)
{
    size_t bad = zl_utf8_check(text, len), from = ids->n, plain_from;
    if (bad < len)
        return zl_fail(err, ZL_EINPUT, "byte %zu of the text (0x%02x) is not valid UTF-8", bad,
                       (unsigned char)text[bad]);
    struct zl_encoder e = {.t = t, .ids = ids, .err = err, .flags = flags};
    struct pieces p = {.e = &e};
    int rc = 0;
    e.md = pcre2_match_data_create(1, NULL); /* the whole match is all we ask for */
    if (!e.md)
        rc = zl_fail(err, ZL_EMEMORY, "no memory to match patterns");
    for (size_t i = 0; i < t->before.n && !rc && (flags & ZL_ENCODE_SPECIAL); i++)
        rc = zl_ids_add(ids, t->before.id[i], err);
    plain_from = ids->n;
    if (!rc)
        rc = zl_added_split(t->raw, text, len, !(flags & ZL_ENCODE_CONTINUES),
                            flags & ZL_ENCODE_PLAIN, ids, after_raw, &p, err);
    if (!rc && (flags & ZL_ENCODE_PLAIN))
        rc = check_plain(t, ids, plain_from, err);
    for (size_t i = 0; i < t->after.n && !rc && (flags & ZL_ENCODE_SPECIAL); i++)
        rc = zl_ids_add(ids, t->after.id[i], err);
    if (rc)
        ids->n = from;
    pcre2_match_data_free(e.md);
    zl_bpe_free(&e.bpe);
    free(e.mapped.s);
    free(p.buffer[0].s);
    free(p.buffer[1].s);
    return rc;
}
