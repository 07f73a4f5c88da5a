/*
 * Pre-tokenizers: cut a piece of normalized text into words, depth first: a stage hands each part
 * on to the next stage as soon as it is found, the last one to zl_encode_word, so no list of words
 * exists and a text may be as long as memory holds it. A part is matched as a text of its own: no
 * pattern looks beyond its ends. The rules for delimiters are those of the reference (isolated,
 * removed, merged with previous or next, contiguous). Called by encode.c.
 */
#include "config.h"

#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

static int run_stage(struct zl_encoder *e, int stage, const char *s, size_t n, bool first);

/* One cutting of one part: segments come in order, and one is held back while the rule may still
 * join it with the next. */
struct cut {
    struct zl_encoder *e;
    int stage;
    const struct zl_pretokenizer *p;
    const char *s;
    bool first;
    bool held, held_match, last_match;
    size_t begin, end;
};

static int hand_on(struct cut *c, size_t begin, size_t end)
{
    return begin == end
               ? 0
               : run_stage(c->e, c->stage + 1, c->s + begin, end - begin, c->first && begin == 0);
}

static int flush(struct cut *c)
{
    bool held = c->held;
    c->held = false;
    return held ? hand_on(c, c->begin, c->end) : 0;
}

static int segment(struct cut *c, size_t begin, size_t end, bool match)
{
    match ^= c->p->invert;
    bool join = false;
    switch (c->p->how) {
    case ZL_SPLIT_ISOLATED:
        return hand_on(c, begin, end);
    case ZL_SPLIT_REMOVED:
        return match ? 0 : hand_on(c, begin, end);
    case ZL_SPLIT_PREVIOUS:
        join = c->held && match && !c->last_match;
        break;
    case ZL_SPLIT_NEXT:
        join = c->held && !match && c->held_match;
        break;
    case ZL_SPLIT_CONTIGUOUS:
        join = c->held && match == c->last_match;
        break;
    }
    c->last_match = match;
    if (join) {
        c->end = end;
        c->held_match = match;
        return 0;
    }
    int rc = flush(c);
    c->held = true;
    c->held_match = match;
    c->begin = begin;
    c->end = end;
    return rc;
}

static int cut_by_literal(struct cut *c, size_t n)
{
    const struct zl_pretokenizer *p = c->p;
    size_t at = 0;
    int rc = 0;
    while (!rc && at < n) {
        const char *hit = memmem(c->s + at, n - at, p->literal, p->literal_len);
        size_t begin = hit ? (size_t)(hit - c->s) : n;
        if (begin > at)
            rc = segment(c, at, begin, false);
        if (!rc && hit)
            rc = segment(c, begin, begin + p->literal_len, true);
        at = hit ? begin + p->literal_len : n;
    }
    return rc;
}

static int cut_by_pattern(struct cut *c, size_t n)
{
    size_t at = 0, done = 0, last = SIZE_MAX, begin, end;
    int rc = 0, found;
    while (at <= n &&
           (found = zl_regex_next(c->p->re, c->e->md, c->s, n, at, &begin, &end, c->e->err)) != 0) {
        if (found < 0)
            return found;
        if (begin == end &&
            end == last) { /* an empty match right after the last one: look one character on */
            at = at < n ? at + (size_t)zl_utf8_step(c->s + at, n - at) : n + 1;
            continue;
        }
        if (begin > done)
            rc = segment(c, done, begin, false);
        if (!rc)
            rc = segment(c, begin, end, true);
        if (rc)
            return rc;
        at = done = last = end;
    }
    return done < n ? segment(c, done, n, false) : 0;
}

/* What a stage changes in the text before it cuts: 1 when the changed text is in *out, 0 when it
 * stays, negative on failure. */
static int change(const struct zl_encoder *e, const struct zl_pretokenizer *p, const char *s,
                  size_t n, bool first, struct zl_text *out)
{
    if (p->add_space && s[0] != ' ') {
        int rc = zl_text_add(out, " ", 1, e->err);
        if (!rc)
            rc = zl_text_add(out, s, n, e->err);
        return rc ? rc : 1;
    }
    if (!p->metaspace)
        return 0;
    const char *end = s + n, *hit;
    bool has = s[0] == ' ' || (n >= p->literal_len && memcmp(s, p->literal, p->literal_len) == 0);
    int rc = 0;
    if (!has && (p->prepend == ZL_PREPEND_ALWAYS || (p->prepend == ZL_PREPEND_FIRST && first)))
        rc = zl_text_add(out, p->literal, p->literal_len, e->err);
    while (!rc && (hit = memchr(s, ' ', (size_t)(end - s)))) {
        rc = zl_text_add(out, s, (size_t)(hit - s), e->err);
        if (!rc)
            rc = zl_text_add(out, p->literal, p->literal_len, e->err);
        s = hit + 1;
    }
    if (!rc)
        rc = zl_text_add(out, s, (size_t)(end - s), e->err);
    return rc ? rc : 1;
}

static int run_stage(struct zl_encoder *e, int stage, const char *s, size_t n, bool first)
{
    if (stage == e->t->n_pre)
        return zl_encode_word(e, s, n);
    const struct zl_pretokenizer *p = &e->t->pre[stage];
    struct zl_text changed = {0};
    int rc = change(e, p, s, n, first, &changed);
    if (rc < 0)
        goto out;
    if (rc > 0) {
        s = changed.s;
        n = changed.n;
    }
    if (!p->cuts) {
        rc = run_stage(e, stage + 1, s, n, first);
        goto out;
    }
    struct cut c = {.e = e, .stage = stage, .p = p, .s = s, .first = first};
    rc = p->re ? cut_by_pattern(&c, n) : cut_by_literal(&c, n);
    if (!rc)
        rc = flush(&c);
out:
    free(changed.s);
    return rc;
}

int zl_pretokenize(struct zl_encoder *e, const char *s, size_t n, bool first)
{
    return n ? run_stage(e, 0, s, n, first) : 0;
}
