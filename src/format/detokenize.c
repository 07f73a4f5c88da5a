/*
 * Decoding: ids to text as the reference's decoders do it, and the same bit by bit for streaming.
 * What an id stands for is computed at load (zl_decoder_finish); here pieces are joined. One state
 * machine serves both: zl_tokenizer_decode pushes all ids into it. Invariant: what was given out
 * never changes, whatever comes next, and all of it together equals the decoding of the whole; so
 * bytes wait until they are certain: half a character with byte-level tokens, a whole run of byte
 * tokens with byte fallback (the run is text only when all of it is UTF-8, else every byte becomes
 * U+FFFD).
 */
#include "config.h"

#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

struct zl_detokenizer {
    const struct zl_tokenizer *t;
    bool skip_special;
    bool started;      /* a token was taken */
    uint64_t stripped; /* characters taken from the front, or UINT64_MAX when that is over */
    struct zl_text out;
    struct zl_text held;
};

static int add_lossy(struct zl_detokenizer *d, bool last, struct zl_error *err)
{
    struct zl_text *h = &d->held;
    size_t i = 0;
    int rc = 0;
    while (i < h->n && !rc) {
        int step = zl_utf8_step(h->s + i, h->n - i);
        if (step == 0 && !last)
            break;
        if (step > 0)
            rc = zl_text_add(&d->out, h->s + i, (size_t)step, err);
        else
            rc = zl_text_add(&d->out, replacement, 3, err);
        i += step > 0 ? (size_t)step : step < 0 ? (size_t)-step : h->n - i;
    }
    if (i) {
        memmove(h->s, h->s + i, h->n - i);
        h->n -= i;
    }
    return rc;
}

/* Text that is certain, with what the decoder strips from the front of the whole. */
static int add_text(struct zl_detokenizer *d, const char *s, size_t n, struct zl_error *err)
{
    const struct zl_decoder *c = &d->t->decoder;
    while (n && d->stripped < c->strip_n) {
        if (n < c->strip_len || memcmp(s, c->strip, c->strip_len) != 0) {
            d->stripped = UINT64_MAX;
            break;
        }
        d->stripped++;
        s += c->strip_len;
        n -= c->strip_len;
    }
    return zl_text_add(&d->out, s, n, err);
}

static int end_byte_run(struct zl_detokenizer *d, struct zl_error *err)
{
    size_t n = d->held.n;
    int rc = 0;
    if (n && zl_utf8_check(d->held.s, n) == n)
        rc = add_text(d, d->held.s, n, err);
    else
        for (size_t i = 0; i < n && !rc; i++)
            rc = add_text(d, replacement, 3, err);
    d->held.n = 0;
    return rc;
}

/* What is decoded of an id: its text; of an added token that matches normalized text, that. */
static struct zl_piece surface(const struct zl_tokenizer *t, uint32_t id)
{
    struct zl_piece p = t->vocab.piece[id];
    for (size_t i = 0; (p.flags & ZL_PIECE_ADDED) && i < t->normalized->n; i++)
        if (t->normalized->token[i].id == (int32_t)id) {
            p.s = t->normalized->token[i].s;
            p.len = (uint32_t)t->normalized->token[i].len;
        }
    return p;
}

static int push(struct zl_detokenizer *d, int32_t id, struct zl_error *err)
{
    const struct zl_tokenizer *t = d->t;
    if (!zl_tokenizer_token(t, id, NULL))
        return zl_fail(err, ZL_EINPUT, "%s: there is no token with id %d", t->source, id);
    if (d->skip_special && (t->vocab.piece[id].flags & ZL_PIECE_SPECIAL))
        return 0;
    const struct zl_piece *p = &t->decoded[id];
    const struct zl_decoder *c = &t->decoder;
    bool first = !d->started;
    d->started = true;
    if (c->kind == ZL_DECODE_BYTE_LEVEL) {
        int rc = zl_text_add(&d->held, p->s, p->len, err);
        return rc ? rc : add_lossy(d, false, err);
    }
    if (c->kind == ZL_DECODE_SPACES) {
        int rc = first ? 0 : zl_text_add(&d->out, " ", 1, err);
        return rc ? rc : zl_text_add(&d->out, p->s, p->len, err);
    }
    if (p->flags) {
        char byte = (char)(p->flags - 1);
        return zl_text_add(&d->held, &byte, 1, err);
    }
    int rc = end_byte_run(d, err);
    if (!rc && first && c->bare) {
        const struct zl_piece whole = surface(t, (uint32_t)id);
        const struct zl_replace r = {
            .from = c->bare, .from_len = c->bare_len, .to = c->bare, .to_len = 0};
        return zl_text_add_replaced(&d->out, whole.s, whole.len, &r, err);
    }
    return rc ? rc : add_text(d, p->s, p->len, err);
}

static int finish(struct zl_detokenizer *d, struct zl_error *err)
{
    return d->t->decoder.kind == ZL_DECODE_BYTE_LEVEL ? add_lossy(d, true, err)
                                                      : end_byte_run(d, err);
}

int zl_tokenizer_decode(const struct zl_tokenizer *t, const int32_t *ids, size_t n,
                        bool skip_special, char **text, size_t *len, struct zl_error *err)
{
    struct zl_detokenizer d = {.t = t, .skip_special = skip_special};
    int rc = zl_text_add(&d.out, *text ? *text : "", *text ? *len : 0, err);
    for (size_t i = 0; i < n && !rc; i++)
        rc = push(&d, ids[i], err);
    if (!rc)
        rc = finish(&d, err);
    free(d.held.s);
    if (rc) {
        free(d.out.s);
        return rc;
    }
    free(*text);
    *text = d.out.s;
    *len = d.out.n;
    return 0;
}

struct zl_detokenizer *zl_detokenizer_new(const struct zl_tokenizer *t, bool skip_special)
{
    struct zl_detokenizer *d = calloc(1, sizeof *d);
    if (d) {
        d->t = t;
        d->skip_special = skip_special;
        if (zl_text_add(&d->out, "", 0, NULL)) {
            free(d);
            return NULL;
        }
    }
    return d;
}

const char *zl_detokenizer_push(struct zl_detokenizer *d, int32_t id, size_t *len)
{
    d->out.n = 0;
    d->out.s[0] = '\0';
    push(d, id, NULL);
    if (len)
        *len = d->out.n;
    return d->out.s;
}

const char *zl_detokenizer_finish(struct zl_detokenizer *d, size_t *len)
{
    d->out.n = 0;
    d->out.s[0] = '\0';
    finish(d, NULL);
    d->started = false;
    d->stripped = 0;
    if (len)
        *len = d->out.n;
    return d->out.s;
}

void zl_detokenizer_free(struct zl_detokenizer *d)
{
    if (!d)
        return;
    free(d->out.s);
    free(d->held.s);
    free(d);
}

/* Byte-level: characters to bytes; a token with a character outside the alphabet (an added token)
 * stays as it is. */
static int decode_byte_level(const struct zl_piece *p, struct zl_text *out, struct zl_error *err)
{
    size_t from = out->n;
    for (size_t i = 0; i < p->len;) {
        utf8proc_int32_t c = -1;
        utf8proc_ssize_t step = utf8proc_iterate((const utf8proc_uint8_t *)p->s + i,
                                                 (utf8proc_ssize_t)(p->len - i), &c);
        int byte = step > 0 ? zl_byte_from_char(c) : -1;
        if (byte < 0) {
            out->n = from;
            return zl_text_add(out, p->s, p->len, err);
        }
        char b = (char)byte;
        int rc = zl_text_add(out, &b, 1, err);
        if (rc)
            return rc;
        i += (size_t)step;
    }
    return 0;
}

static int decode_replaced(const struct zl_decoder *c, const struct zl_piece *p,
                           struct zl_text *out, struct zl_text tmp[2], struct zl_error *err)
{
    const char *s = p->s;
    size_t n = p->len;
    int rc = 0;
    for (int k = 0; k < c->n_replace && !rc; k++) {
        struct zl_text *b = &tmp[k % 2];
        b->n = 0;
        rc = zl_text_add_replaced(b, s, n, &c->replace[k], err);
        s = b->s;
        n = b->n;
        if (!rc && n > 4 * ZL_TOK_MAX_SURFACE)
            rc = zl_fail(err, ZL_EINPUT, "the decoder makes a text of %zu bytes out of one token",
                         n);
    }
    return rc ? rc : zl_text_add(out, s, n, err);
}

int zl_decoder_finish(struct zl_tokenizer *t, struct zl_error *err)
{
    struct zl_text tmp[2] = {0};
    uint32_t n = t->vocab.n;
    size_t *at = malloc(((size_t)n + 1) * sizeof *at);
    t->decoded = calloc(n ? n : 1, sizeof *t->decoded);
    int rc = at && t->decoded ? 0 : zl_fail(err, ZL_EMEMORY, "no memory to decode %u tokens", n);
    for (uint32_t id = 0; id < n && !rc; id++) {
        const struct zl_piece piece = surface(t, id), *p = &piece;
        at[id] = t->decoded_blob.n;
        if (!(p->flags & ZL_PIECE_PRESENT))
            continue;
        if (t->decoder.kind == ZL_DECODE_BYTE_LEVEL)
            rc = decode_byte_level(p, &t->decoded_blob, err);
        else
            rc = decode_replaced(&t->decoder, p, &t->decoded_blob, tmp, err);
        if (!rc && t->decoded_blob.n > 1u << 28)
            rc = zl_fail(err, ZL_EINPUT, "%s: the decoder makes texts of more than 256 MiB",
                         t->source);
        int byte = t->decoder.byte_fallback ? zl_byte_token(p->s, p->len) : -1;
        t->decoded[id].flags = (uint32_t)(byte + 1);
    }
    for (uint32_t id = 0; id < n && !rc; id++) {
        size_t end = id + 1 < n ? at[id + 1] : t->decoded_blob.n;
        t->decoded[id].s = t->decoded_blob.s + at[id];
        t->decoded[id].len = (uint32_t)(end - at[id]);
    }
    free(at);
    free(tmp[0].s);
    free(tmp[1].s);
    return rc;
}
