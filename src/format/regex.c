/*
 * Split patterns through PCRE2. The patterns of tokenizer.json are written for Oniguruma (Ruby's
 * syntax, Unicode), which means other things by a few escapes: \s, \S, \w, \W and \h are rewritten
 * to the sets that are meant there (PCRE2 counts U+180E as a blank and leaves marks out of \w), and
 * what has no counterpart (sets inside sets, intersections) is refused. Matching is done by the
 * just-in-time compiled code where PCRE2 has it, else, or when its stack is too small, by the
 * interpreter.
 */
#include "config.h"

#include "format/quote.h"
#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

#define SPACE "\\t-\\r\\x{85}\\p{Z}"
#define WORD  "\\p{L}\\p{M}\\p{N}\\p{Pc}" ZL_REGEX_LETTER_SYMBOLS
#define HEX   "0-9a-fA-F"

static const struct {
    char letter;
    bool negated;
    const char *set;
} escapes[] = {{'s', false, SPACE}, {'S', true, SPACE}, {'w', false, WORD},
               {'W', true, WORD},   {'h', false, HEX},  {'H', true, HEX}};

static bool is_hex(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f') ||
              (s[i] >= 'A' && s[i] <= 'F')))
            return false;
    return true;
}

/* Write the escape \letter; false when it needs no rewriting. */
static bool rewrite_escape(char letter, bool in_set, struct zl_text *out, int *rc,
                           struct zl_error *err)
{
    for (size_t i = 0; i < sizeof escapes / sizeof *escapes; i++) {
        if (escapes[i].letter != letter)
            continue;
        if (in_set && escapes[i].negated)
            return false;
        const char *open = in_set ? "" : escapes[i].negated ? "[^" : "[";
        *rc = zl_text_add(out, open, strlen(open), err);
        if (!*rc)
            *rc = zl_text_add(out, escapes[i].set, strlen(escapes[i].set), err);
        if (!*rc && !in_set)
            *rc = zl_text_add(out, "]", 1, err);
        return true;
    }
    return false;
}

static int rewrite(const char *p, size_t n, struct zl_text *out, struct zl_error *err)
{
    bool in_set = false;
    int rc = zl_text_add(out, "", 0, err);
    for (size_t i = 0; i < n && !rc; i++) {
        if (p[i] == '\\' && i + 5 < n && p[i + 1] == 'u' && is_hex(p + i + 2, 4)) {
            char code[16] = "\\x{0000}"; /* \u0000 */
            memcpy(code + 3, p + i + 2, 4);
            rc = zl_text_add(out, code, strlen(code), err);
            i += 5;
            continue;
        }
        if (p[i] == '\\' && i + 1 < n) {
            if (!rewrite_escape(p[i + 1], in_set, out, &rc, err))
                rc = zl_text_add(out, p + i, 2, err);
            i++;
            continue;
        }
        if (!in_set && p[i] == '[') {
            in_set = true;
            size_t begin = i;
            if (i + 1 < n && p[i + 1] == '^')
                i++;
            if (i + 1 < n && p[i + 1] == ']')
                i++;
            rc = zl_text_add(out, p + begin, i + 1 - begin, err);
            continue;
        }
        if (in_set && p[i] == ']')
            in_set = false;
        if (in_set && (p[i] == '[' || (p[i] == '&' && i + 1 < n && p[i + 1] == '&')))
            return zl_fail(
                err, ZL_EINPUT,
                "the pattern \"%s\" has a set inside a set at byte %zu, which is not supported",
                zl_quote_n(p, n).s, i);
        rc = zl_text_add(out, p + i, 1, err);
    }
    return rc;
}

int zl_regex_compile(const char *pattern, size_t len, pcre2_code **out, struct zl_error *err)
{
    struct zl_text text = {0};
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    int rc = rewrite(pattern, len, &text, err);
    if (rc)
        goto out;
    if (!context) {
        rc = zl_fail(err, ZL_EMEMORY, "no memory for a pattern");
        goto out;
    }
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    int code;
    PCRE2_SIZE at;
    *out = pcre2_compile((PCRE2_SPTR)text.s, text.n,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &code,
                         &at, context);
    if (!*out) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(code, why, sizeof why);
        rc = zl_fail(err, ZL_EINPUT, "the pattern \"%s\" is not valid: %s",
                     zl_quote_n(pattern, len).s, (const char *)why);
        goto out;
    }
    pcre2_jit_compile(*out, PCRE2_JIT_COMPLETE); /* fails where there is no JIT: the interpreter
                                                    gives the same matches */
out:
    pcre2_compile_context_free(context);
    free(text.s);
    return rc;
}

int zl_regex_next(const pcre2_code *re, pcre2_match_data *md, const char *s, size_t n, size_t at,
                  size_t *begin, size_t *end, struct zl_error *err)
{
    int code = pcre2_match(re, (PCRE2_SPTR)s, n, at, PCRE2_NO_UTF_CHECK, md, NULL);
    if (code == PCRE2_ERROR_JIT_STACKLIMIT)
        code = pcre2_match(re, (PCRE2_SPTR)s, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, md, NULL);
    if (code == PCRE2_ERROR_NOMATCH)
        return 0;
    if (code < 0) {
        PCRE2_UCHAR why[128];
        pcre2_get_error_message(code, why, sizeof why);
        return zl_fail(err, ZL_EINPUT, "a split pattern of the tokenizer gave up: %s",
                       (const char *)why);
    }
    const PCRE2_SIZE *ovector = pcre2_get_ovector_pointer(md);
    if (ovector[1] < ovector[0]) /* \K inside a look-ahead */
        return zl_fail(err, ZL_EINPUT, "a split pattern of the tokenizer matches backwards");
    *begin = ovector[0];
    *end = ovector[1];
    return 1;
}
