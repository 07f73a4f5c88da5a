/*
 * Added tokens: texts that are cut out before anything else. Leftmost match, of those the longest;
 * a match that the token's flags refuse (single_word, special in plain text) is passed over whole,
 * as in the reference. The tokens are sorted, and a match narrows the range of candidates byte by
 * byte: no automaton, and time is bounded by text x longest token x log tokens.
 */
#include "config.h"

#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

int zl_added_put(struct zl_added *a, const struct zl_added_token *token, struct zl_error *err)
{
    if ((a->n & (a->n - 1)) == 0) { /* grow at powers of two */
        struct zl_added_token *grown = realloc(a->token, (a->n ? a->n * 2 : 1) * sizeof *grown);
        if (!grown)
            return zl_fail(err, ZL_EMEMORY, "no memory for %zu added tokens", a->n + 1);
        a->token = grown;
    }
    char *copy = zl_tok_strdup(token->s, token->len, err);
    if (!copy)
        return ZL_EMEMORY;
    a->token[a->n] = *token;
    a->token[a->n++].s = copy;
    return 0;
}

static int by_text(const void *pa, const void *pb)
{
    const struct zl_added_token *a = pa, *b = pb;
    size_t n = a->len < b->len ? a->len : b->len;
    int order = n ? memcmp(a->s, b->s, n) : 0;
    if (order)
        return order;
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

int zl_added_sort(struct zl_added *a, const char *source, struct zl_error *err)
{
    if (a->n)
        qsort(a->token, a->n, sizeof *a->token, by_text);
    size_t kept = 0;
    for (size_t i = 0; i < a->n; i++) { /* of equal texts the first stays */
        const struct zl_added_token *t = &a->token[i];
        if (t->len > 4096)
            return zl_fail(
                err, ZL_EINPUT,
                "%s: the added token with id %d is %zu bytes long; at most 4096 are supported",
                source, t->id, t->len);
        if (t->len == 0 || (kept && a->token[kept - 1].len == t->len &&
                            memcmp(a->token[kept - 1].s, t->s, t->len) == 0)) {
            free((char *)(uintptr_t)t->s);
            continue;
        }
        a->first[(unsigned char)t->s[0]] = true;
        a->token[kept++] = *t;
    }
    a->n = kept;
    return 0;
}

void zl_added_free(struct zl_added *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->n; i++)
        free((char *)(uintptr_t)a->token[i].s);
    free(a->token);
    free(a);
}

/* First token in [low, high) whose byte at `depth` is >= byte. All of them agree before depth and
 * are longer than it, but for the one that ends there, which is first. */
static size_t lower_bound(const struct zl_added *a, size_t low, size_t high, size_t depth, int byte)
{
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct zl_added_token *t = &a->token[mid];
        int here = t->len > depth ? (unsigned char)t->s[depth] : -1;
        if (here < byte)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static const struct zl_added_token *longest_at(const struct zl_added *a, const char *s, size_t n)
{
    const struct zl_added_token *best = NULL;
    size_t low = 0, high = a->n;
    for (size_t depth = 0; depth < n && low < high; depth++) {
        int byte = (unsigned char)s[depth];
        low = lower_bound(a, low, high, depth, byte);
        high = lower_bound(a, low, high, depth, byte + 1);
        if (low < high && a->token[low].len == depth + 1)
            best = &a->token[low];
    }
    return best;
}

static int32_t char_at(const char *s, size_t n, size_t *step)
{
    utf8proc_int32_t c = -1;
    *step = (size_t)utf8proc_iterate((const utf8proc_uint8_t *)s, (utf8proc_ssize_t)n, &c);
    return c;
}

/* Where the character that ends at s[end) begins. */
static size_t char_before(const char *s, size_t end)
{
    do
        end--;
    while (end > 0 && ((unsigned char)s[end] & 0xc0) == 0x80);
    return end;
}

static bool stands_alone(const char *s, size_t n, size_t begin, size_t end)
{
    size_t step;
    if (begin > 0) {
        size_t before = char_before(s, begin);
        if (zl_char_is_word(char_at(s + before, begin - before, &step)))
            return false;
    }
    return end == n || !zl_char_is_word(char_at(s + end, n - end, &step));
}

/* Where the blanks that end at s[end) begin, but not before `from`. */
static size_t strip_before(const char *s, size_t from, size_t end)
{
    size_t step;
    while (end > from) {
        size_t before = char_before(s, end);
        if (!zl_char_is_space(char_at(s + before, end - before, &step)))
            break;
        end = before;
    }
    return end;
}

int zl_added_split(const struct zl_added *a, const char *s, size_t n, bool first, bool plain,
                   struct zl_ids *ids, zl_added_text_fn *text, void *ctx, struct zl_error *err)
{
    size_t done = 0, at = 0, step;
    int rc = 0;
    while (a->n && at < n) {
        const struct zl_added_token *t =
            a->first[(unsigned char)s[at]] ? longest_at(a, s + at, n - at) : NULL;
        if (!t) {
            at++;
            continue;
        }
        size_t begin = at, end = at + t->len;
        at = end;
        if ((plain && t->special) || (t->single_word && !stands_alone(s, n, begin, end)))
            continue;
        if (t->lstrip)
            begin = begin < done ? done : strip_before(s, done, begin);
        if (t->rstrip)
            while (end < n && zl_char_is_space(char_at(s + end, n - end, &step)))
                end += step;
        if (begin >= end) /* blanks that the token before took already */
            continue;
        if (begin > done)
            rc = text(ctx, s + done, begin - done, first && done == 0);
        if (!rc)
            rc = zl_ids_add(ids, t->id, err);
        if (rc)
            return rc;
        done = end;
    }
    return done < n ? text(ctx, s + done, n - done, first && done == 0) : 0;
}
