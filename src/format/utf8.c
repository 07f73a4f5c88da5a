/*
 * Text: a growing string, which bytes are UTF-8, what is a blank, and the byte-level alphabet of
 * GPT-2 that gives every byte a printable character. Categories come from utf8proc; there is no
 * table of our own here. Called by all files of the tokenizer.
 */
#include "config.h"

#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

int zl_text_add(struct zl_text *t, const char *s, size_t n, struct zl_error *err)
{
    if (n >= t->capacity - t->n) {
        size_t want = t->capacity + t->capacity / 2;
        if (n >= SIZE_MAX / 4 - t->n)
            return zl_fail(err, ZL_EMEMORY, "no memory for a text of %zu bytes", n);
        if (want < t->n + n + 1)
            want = t->n + n + 64;
        char *grown = realloc(t->s, want);
        if (!grown)
            return zl_fail(err, ZL_EMEMORY, "no memory for a text of %zu bytes", want);
        t->s = grown;
        t->capacity = want;
    }
    if (n)
        memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = '\0';
    return 0;
}

int zl_text_add_replaced(struct zl_text *out, const char *s, size_t n, const struct zl_replace *r,
                         struct zl_error *err)
{
    const char *end = s + n, *hit;
    int rc = 0;
    while (!rc && r->from_len && (hit = memmem(s, (size_t)(end - s), r->from, r->from_len))) {
        rc = zl_text_add(out, s, (size_t)(hit - s), err);
        if (!rc)
            rc = zl_text_add(out, r->to, r->to_len, err);
        s = hit + r->from_len;
    }
    return rc ? rc : zl_text_add(out, s, (size_t)(end - s), err);
}

size_t zl_utf8_check(const char *s, size_t n)
{
    size_t i = 0;
    while (i < n) {
        uint64_t w;
        if (n - i >= 8 && (memcpy(&w, s + i, 8), !(w & 0x8080808080808080u))) {
            i += 8;
        } else {
            int step = zl_utf8_step(s + i, n - i);
            if (step <= 0)
                return i;
            i += (size_t)step;
        }
    }
    return n;
}

int zl_utf8_step(const char *s, size_t n)
{
    const unsigned char *u = (const unsigned char *)s;
    if (u[0] < 0x80)
        return 1;
    if (u[0] < 0xc2 || u[0] > 0xf4)
        return -1;
    /* The second byte has narrower bounds after four of the lead bytes (no overlong forms,
     * surrogates, or beyond U+10FFFF). */
    unsigned char low = u[0] == 0xe0 ? 0xa0 : u[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = u[0] == 0xed ? 0x9f : u[0] == 0xf4 ? 0x8f : 0xbf;
    int want = u[0] < 0xe0 ? 2 : u[0] < 0xf0 ? 3 : 4;
    for (int i = 1; i < want; i++) {
        if ((size_t)i == n)
            return 0;
        if (u[i] < low || u[i] > high)
            return -i;
        low = 0x80;
        high = 0xbf;
    }
    return want;
}

bool zl_char_is_space(int32_t c)
{
    if ((c >= '\t' && c <= '\r') || c == 0x85)
        return true;
    utf8proc_category_t k = utf8proc_category(c);
    return k == UTF8PROC_CATEGORY_ZS || k == UTF8PROC_CATEGORY_ZL || k == UTF8PROC_CATEGORY_ZP;
}

bool zl_char_is_word(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default: /* the joiners, and the symbols that are alphabetic: circled and squared letters */
        return c == 0x200c || c == 0x200d || (c >= 0x24b6 && c <= 0x24e9) ||
               (c >= 0x1f130 && c <= 0x1f149) || (c >= 0x1f150 && c <= 0x1f169) ||
               (c >= 0x1f170 && c <= 0x1f189);
    }
}

/* The alphabet: the printable bytes of Latin-1 stand for themselves, the other 68, in order, for
 * U+0100 and up. */
static bool stands_for_itself(int32_t b)
{
    return (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b <= 0xac) || (b >= 0xae && b <= 0xff);
}

int zl_byte_from_char(int32_t c)
{
    if (c < 0x100)
        return c >= 0 && stands_for_itself(c) ? c : -1;
    int32_t left = c - 0x100;
    for (int32_t b = 0; b < 0x100 && left < 0x100; b++)
        if (!stands_for_itself(b) && left-- == 0)
            return b;
    return -1;
}

size_t zl_byte_to_char(unsigned char b, char out[4])
{
    int32_t c = b;
    if (!stands_for_itself(b)) {
        c = 0x100;
        for (int32_t i = 0; i < b; i++)
            c += !stands_for_itself(i);
    }
    return (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)out);
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

int zl_byte_token(const char *s, size_t n)
{
    if (n != 6 || memcmp(s, "<0x", 3) != 0 || s[5] != '>')
        return -1;
    int high = hex_digit(s[3]), low = hex_digit(s[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}
