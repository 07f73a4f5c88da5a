/*
 * The decoder of tokenizer.json, read into struct zl_decoder. Stages are accepted in the orders
 * that detokenize.c can run piece by piece, which are those that exist: ByteLevel or Metaspace
 * alone, or Replace…, ByteFallback, Fuse, Strip. Called by tokenizer_pipeline.c.
 */
#include "config.h"

#include "format/tokenizer_json.h"

#include <stdlib.h>
#include <string.h>

enum { SEEN_FALLBACK = 1, SEEN_FUSE = 2, SEEN_WHOLE = 4 };

static int in_order(const struct zl_json *r, const char *type, bool ok)
{
    return ok ? 0
              : zl_fail(r->err, ZL_EINPUT, "%s: the decoder %s stands where it is not supported",
                        r->file, type);
}

static int dec_byte_level(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    struct zl_decoder *d = &t->decoder;
    (void)stage;
    bool ok = d->kind == ZL_DECODE_SPACES;
    d->kind = ZL_DECODE_BYTE_LEVEL;
    d->seen |= SEEN_WHOLE;
    return in_order(r, "ByteLevel", ok);
}

static int dec_replace(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char where[] = "Replace decoder";
    struct zl_decoder *d = &t->decoder;
    const char *text = NULL;
    size_t len = 0;
    bool regex = false;
    int rc = in_order(r, "Replace", !d->seen && d->n_replace < ZL_TOK_MAX_STAGES);
    if (rc || (rc = zl_json_pattern(r, stage, where, &text, &len, &regex)) != 0)
        return rc;
    if (regex)
        return zl_fail(r->err, ZL_EINPUT, "%s: a %s with a Regex is not supported", r->file, where);
    struct zl_replace *p = &d->replace[d->n_replace++];
    *p = (struct zl_replace){.from = zl_tok_strdup(text, len, r->err), .from_len = len};
    d->kind = ZL_DECODE_PIECES;
    return p->from ? zl_json_content(r, stage, where, "content", &p->to, &p->to_len) : ZL_EMEMORY;
}

static int dec_byte_fallback(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    struct zl_decoder *d = &t->decoder;
    (void)stage;
    bool ok = !d->seen;
    d->kind = ZL_DECODE_PIECES;
    d->byte_fallback = true;
    d->seen |= SEEN_FALLBACK;
    return in_order(r, "ByteFallback", ok);
}

static int dec_fuse(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    struct zl_decoder *d = &t->decoder;
    (void)stage;
    bool ok = !(d->seen & (SEEN_FUSE | SEEN_WHOLE));
    d->kind = ZL_DECODE_PIECES;
    d->seen |= SEEN_FUSE;
    return in_order(r, "Fuse", ok);
}

static int dec_strip(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char where[] = "Strip decoder";
    struct zl_decoder *d = &t->decoder;
    int64_t start = 0, stop = 0;
    int rc = in_order(r, "Strip", (d->seen & SEEN_FUSE) && !d->strip);
    if (rc || (rc = zl_json_content(r, stage, where, "content", &d->strip, &d->strip_len)) != 0 ||
        (rc = zl_json_int(r, stage, where, "start", &start)) < 0 ||
        (rc = zl_json_int(r, stage, where, "stop", &stop)) < 0)
        return rc;
    if (start < 0 || stop != 0 || d->strip_len == 0)
        return zl_fail(r->err, ZL_EINPUT,
                       "%s: a %s with start %lld and stop %lld is not supported, expected some "
                       "start and stop 0",
                       r->file, where, (long long)start, (long long)stop);
    d->strip_n = (uint64_t)start;
    return 0;
}

static int dec_metaspace(const struct zl_json *r, const json_t *stage, struct zl_tokenizer *t)
{
    static const char where[] = "Metaspace decoder";
    struct zl_decoder *d = &t->decoder;
    enum zl_prepend scheme = ZL_PREPEND_ALWAYS;
    int rc = in_order(r, "Metaspace", d->kind == ZL_DECODE_SPACES);
    if (rc || (rc = zl_json_prepend_scheme(r, stage, where, &scheme)) != 0)
        return rc;
    d->kind = ZL_DECODE_PIECES;
    d->seen |= SEEN_WHOLE;
    struct zl_replace *p = &d->replace[d->n_replace++];
    *p = (struct zl_replace){.to = zl_tok_strdup(" ", 1, r->err), .to_len = 1};
    if (!p->to ||
        (rc = zl_json_content(r, stage, where, "replacement", &p->from, &p->from_len)) != 0)
        return rc ? rc : ZL_EMEMORY;
    if (scheme != ZL_PREPEND_NEVER) {
        d->bare = zl_tok_strdup(p->from, p->from_len, r->err);
        d->bare_len = p->from_len;
        rc = d->bare ? 0 : ZL_EMEMORY;
    }
    return rc;
}

static const struct zl_json_type decoders[] = {
    {"ByteLevel", dec_byte_level},
    {"Replace", dec_replace},
    {"ByteFallback", dec_byte_fallback},
    {"Fuse", dec_fuse},
    {"Strip", dec_strip},
    {"Metaspace", dec_metaspace},
};

int zl_json_decoder(const struct zl_json *r, const json_t *root, struct zl_tokenizer *t)
{
    static const struct zl_json_part part = {"decoder", "decoders", decoders,
                                             sizeof decoders / sizeof *decoders};
    json_t *stage = NULL;
    int rc = zl_json_object(r, root, "the file", part.name, &stage);
    if (rc == 0)
        rc = zl_json_stage(r, &part, stage, t, 0);
    return rc < 0 ? rc : 0;
}
