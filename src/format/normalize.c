/*
 * Normalizers: Unicode forms by utf8proc, replacing, prepending, applied one after the
 * other to a piece of text that holds no added token. Input and output are UTF-8. Called by
 * encode.c for each piece, and at load for the added tokens that match normalized text.
 */
#include "config.h"

#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const utf8proc_option_t forms[] = {
    [ZL_NORM_NFC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE,
    [ZL_NORM_NFD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
    [ZL_NORM_NFKC] = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
    [ZL_NORM_NFKD] = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT,
};

static bool is_ascii(char c)
{
    return (unsigned char)c < 0x80;
}

/* Runs of ASCII are copied; a run of other characters is normalized together with the one ASCII
 * character before it, which may take a mark. No form joins across the start of an ASCII character.
 */
static int unicode_form(enum zl_normalizer_kind kind, const char *s, size_t n, struct zl_text *out,
                        struct zl_error *err)
{
    size_t i = 0;
    int rc = 0;
    while (i < n && !rc) {
        size_t end = i;
        while (end < n && is_ascii(s[end]))
            end++;
        size_t plain = end < n && end > i ? end - 1 : end;
        rc = zl_text_add(out, s + i, plain - i, err);
        if (end == n || rc)
            break;
        while (end < n && !is_ascii(s[end]))
            end++;
        utf8proc_uint8_t *form = NULL;
        utf8proc_ssize_t len = utf8proc_map((const utf8proc_uint8_t *)s + plain,
                                            (utf8proc_ssize_t)(end - plain), &form, forms[kind]);
        if (len < 0)
            return zl_fail(err, len == UTF8PROC_ERROR_NOMEM ? ZL_EMEMORY : ZL_EINPUT,
                           "a text cannot be normalized: %s", utf8proc_errmsg(len));
        rc = zl_text_add(out, (const char *)form, (size_t)len, err);
        free(form);
        i = end;
    }
    return rc;
}

/* No character below U+0300 (first byte 0xcc) changes in NFC; none of ASCII in any form. */
static bool form_is_identity(enum zl_normalizer_kind kind, const char *s, size_t n)
{
    unsigned char limit = kind == ZL_NORM_NFC ? 0xcc : 0x80, top = 0;
    for (size_t i = 0; i < n; i++)
        top = (unsigned char)s[i] > top ? (unsigned char)s[i] : top;
    return top < limit;
}

static int replace_matches(const struct zl_normalizer *z, const char *s, size_t n,
                           struct zl_text *out, pcre2_match_data *md, struct zl_error *err)
{
    size_t at = 0, done = 0, last = SIZE_MAX, begin, end;
    int rc = 0, found;
    while (at <= n && (found = zl_regex_next(z->re, md, s, n, at, &begin, &end, err)) != 0) {
        if (found < 0)
            return found;
        if (begin == end && end == last) {
            at = at < n ? at + (size_t)zl_utf8_step(s + at, n - at) : n + 1;
            continue;
        }
        rc = zl_text_add(out, s + done, begin - done, err);
        if (!rc)
            rc = zl_text_add(out, z->text.to, z->text.to_len, err);
        if (rc)
            return rc;
        at = done = last = end;
    }
    return zl_text_add(out, s + done, n - done, err);
}

int zl_normalize(const struct zl_tokenizer *t, const char *s, size_t n, struct zl_text buffer[2],
                 pcre2_match_data *md, const char **out, size_t *out_n, struct zl_error *err)
{
    int turn = 0, rc = 0;
    const size_t given = n;
    for (int i = 0; i < t->n_normalizers && !rc; i++) {
        const struct zl_normalizer *z = &t->normalizer[i];
        struct zl_text *b = &buffer[turn];
        b->n = 0;
        switch (z->kind) {
        case ZL_NORM_NFC:
        case ZL_NORM_NFD:
        case ZL_NORM_NFKC:
        case ZL_NORM_NFKD:
            if (form_is_identity(z->kind, s, n))
                continue;
            rc = unicode_form(z->kind, s, n, b, err);
            break;
        case ZL_NORM_PREPEND:
            if (!n)
                continue;
            rc = zl_text_add(b, z->text.to, z->text.to_len, err);
            if (!rc)
                rc = zl_text_add(b, s, n, err);
            break;
        case ZL_NORM_REPLACE:
            rc = z->re ? replace_matches(z, s, n, b, md, err)
                       : zl_text_add_replaced(b, s, n, &z->text, err);
            break;
        }
        s = b->s;
        n = b->n;
        turn = !turn;
        if (!rc && n / 256 > given + 16)
            rc = zl_fail(err, ZL_EINPUT,
                         "%s: the normalizers make a text of %zu bytes out of one of %zu",
                         t->source, n, given);
    }
    *out = s;
    *out_n = n;
    return rc;
}
