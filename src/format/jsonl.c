/*
 * JSON lines: see jsonl.h. jansson parses; here stand the places (line, byte), the bound on a row's
 * memory, and what to say when a file is JSON of another layout. Called by the dataset.
 */
#include "format/jsonl.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Upper bound of the values in a line: each follows one of these outside of strings (inside they
 * only make the bound looser, so strings are skipped). Returns where the bound is passed, or len.
 */
static size_t values_bound(const char *text, size_t len)
{
    uint64_t values = 0;
    bool string = false;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                string = false;
        } else if (c == '"') {
            string = true;
        } else if (c == '[' || c == '{' || c == ',' || c == ':') {
            if (++values > ZL_JSONL_VALUES_MAX)
                return i;
        }
    }
    return len;
}

static bool blank(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

/* In our words where jansson's speak of its own flags or of the end of a file. */
static const char *fault(const json_error_t *je)
{
    switch (json_error_code(je)) {
    case json_error_null_character:
    case json_error_null_byte_in_key:
        return "a string holds the NUL character \\u0000";
    case json_error_premature_end_of_input:
        return "the line ends within the row, expected one whole JSON object on one line";
    case json_error_end_of_input_expected:
        return "more text behind the row, expected one JSON object a line";
    case json_error_stack_overflow:
        return "values are nested deeper than 2048";
    case json_error_numeric_overflow:
        return "a number is beyond the range of a double";
    default:
        return je->text;
    }
}

static int syntax_error(const struct zl_lines *l, json_error_t *je, struct zl_error *err)
{
    /* jansson's position is behind the token at fault */
    uint64_t at = l->offset + (je->position > 0 ? (uint64_t)je->position : 0);
    zl_jsonl_printable(je->text);
    return zl_fail(err, ZL_EINPUT, "%s: line %" PRIu64 ", before byte %" PRIu64 ": %s", l->path,
                   l->line, at, fault(je));
}

static int parse(const struct zl_lines *l, json_t **row, struct zl_error *err)
{
    const char *nul = memchr(l->text, 0, l->len);
    if (nul)
        return zl_fail(err, ZL_EINPUT,
                       "%s: line %" PRIu64 ", byte %" PRIu64 ": a NUL byte, expected JSON text",
                       l->path, l->line, l->offset + (uint64_t)(nul - l->text));
    if (l->len >= 3 && !memcmp(l->text, "\xEF\xBB\xBF", 3))
        return zl_fail(err, ZL_EINPUT,
                       "%s: line %" PRIu64 ", byte %" PRIu64
                       ": a byte order mark, which may stand only at the start of a file",
                       l->path, l->line, l->offset);
    size_t bound = values_bound(l->text, l->len);
    if (bound < l->len)
        return zl_fail(err, ZL_EINPUT,
                       "%s: line %" PRIu64 ", byte %" PRIu64 ": the row holds more than %" PRIu64
                       " JSON values",
                       l->path, l->line, l->offset + bound, ZL_JSONL_VALUES_MAX);
    json_error_t je;
    /* Integers as reals: an extra field may hold an unsigned 64-bit id, which is no error of the
     * row. */
    json_t *v = json_loadb(l->text, l->len,
                           JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_DECODE_INT_AS_REAL, &je);
    if (!v)
        return syntax_error(l, &je, err);
    if (!json_is_object(v)) {
        const char *hint = json_is_array(v)
                               ? "an array; write each of its objects on a line of its own"
                               : "no object";
        json_decref(v);
        return zl_fail(err, ZL_EINPUT,
                       "%s: line %" PRIu64 ", byte %" PRIu64
                       ": the row is %s, expected one JSON object",
                       l->path, l->line, l->offset, hint);
    }
    *row = v;
    return 1;
}

int zl_jsonl_next(struct zl_lines *l, json_t **row, struct zl_error *err)
{
    for (;;) {
        int rc = zl_lines_next(l, err);
        if (rc <= 0)
            return rc;
        if (!blank(l->text, l->len))
            return parse(l, row, err);
    }
}

void zl_jsonl_printable(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p;) {
        size_t n = *p < 0x80 ? 1 : *p < 0xE0 ? 2 : *p < 0xF0 ? 3 : 4, k = 1;
        while (k < n && (p[k] & 0xC0) == 0x80)
            k++;
        bool lone = *p >= 0x80 && *p < 0xC0, c1 = *p == 0xC2 && p[1] < 0xA0;
        if (k < n || lone || c1 || *p < ' ' || *p == 127)
            memset(p, '?', k);
        p += k;
    }
}

void zl_jsonl_keys(const json_t *row, char *out, size_t size)
{
    enum { SHOWN = 8 };
    size_t n = 0, at = 0;
    snprintf(out, size, "none");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)row, key, value)
    {
        if (n++ >= SHOWN || at >= size)
            continue;
        int w = snprintf(out + at, size - at, "%s\"%.40s\"", n > 1 ? ", " : "", key);
        at += w > 0 ? (size_t)w : 0;
    }
    if (n > SHOWN && at < size)
        snprintf(out + at, size - at, " and %zu more", n - SHOWN);
    zl_jsonl_printable(out);
}
