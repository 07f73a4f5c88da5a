/*
 * The canonical form of a chat template, in which spelling does not matter: kinds of quotes,
 * blanks, m['role'] or m.role, '+' or '~' or several outputs in a row, trimming marks. It is not an
 * interpreter: nothing is evaluated, so two templates of equal form render equally and others may
 * or may not. Called by chat_template.c, which compares the form with those that chat.c renders.
 *
 * In the form, text that is always put out stands as it is (`{` and `\` behind a backslash); other
 * outputs are {{expression}}, statements {%statement%}, with no blanks but between two words, and
 * strings in single quotes. White space is treated as the reference's settings (trim_blocks,
 * lstrip_blocks) and the marks `-` and `+` say.
 */
#include "config.h"

#include "format/chat_impl.h"

#include <stdlib.h>
#include <string.h>

struct token {
    enum { TOK_WORD, TOK_STRING, TOK_MARK } kind;
    const char *s; /* a string: between its quotes, escapes not undone */
    size_t n;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (unsigned char)c >= 0x80;
}

/* The next token before `end`; false at the end. */
static bool next_token(const char **s, const char *end, struct token *t)
{
    while (*s < end && is_blank(**s))
        ++*s;
    if (*s == end)
        return false;
    const char *from = *s, *p = from + 1;
    if (*from == '\'' || *from == '"') {
        while (p < end && *p != *from)
            p += *p == '\\' && p + 1 < end ? 2 : 1;
        *t = (struct token){TOK_STRING, from + 1, (size_t)(p - from) - 1};
        *s = p < end ? p + 1 : end;
        return true;
    }
    while (is_word(*from) && p < end && is_word(*p))
        p++;
    *t = (struct token){is_word(*from) ? TOK_WORD : TOK_MARK, from, (size_t)(p - from)};
    *s = p;
    return true;
}

static bool is_mark(const struct token *t, char c)
{
    return t->kind == TOK_MARK && *t->s == c;
}

static bool is_keyword(const struct token *t)
{
    static const char *const words[] = {"if", "else", "and", "or", "not", "in", "is"};
    for (size_t i = 0; t->kind == TOK_WORD && i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == t->n && memcmp(words[i], t->s, t->n) == 0)
            return true;
    return false;
}

static bool is_name(const struct token *t)
{
    for (size_t i = 0; i < t->n; i++)
        if (!is_word(t->s[i]))
            return false;
    return t->kind == TOK_STRING && t->n > 0 && !(t->s[0] >= '0' && t->s[0] <= '9');
}

static int put(struct zl_text *out, const char *s, size_t n, struct zl_error *err)
{
    return zl_text_add(out, s, n, err);
}

/* Text with a backslash before `{`, `\` and, inside quotes, the quote. */
static int put_escaped(struct zl_text *out, const char *s, size_t n, bool quoted,
                       struct zl_error *err)
{
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        if (s[i] == '{' || s[i] == '\\' || (quoted && s[i] == '\''))
            rc = put(out, "\\", 1, err);
        if (!rc)
            rc = put(out, s + i, 1, err);
    }
    return rc;
}

static int put_string(struct zl_text *out, const struct token *t, bool quoted, struct zl_error *err)
{
    int rc = quoted ? put(out, "'", 1, err) : 0;
    for (size_t i = 0; i < t->n && !rc; i++) {
        char c = t->s[i];
        if (c == '\\' && i + 1 < t->n) {
            c = t->s[++i];
            c = c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
        }
        rc = put_escaped(out, &c, 1, quoted, err);
    }
    return rc || !quoted ? rc : put(out, "'", 1, err);
}

/* s..end as tokens; ['name'] behind an operand becomes .name */
static int put_tokens(struct zl_text *out, const char *s, const char *end, struct zl_error *err)
{
    struct token t, name, close, last = {TOK_MARK, "(", 1};
    int rc = 0;
    while (!rc && next_token(&s, end, &t)) {
        const char *ahead = s;
        bool operand = (last.kind == TOK_WORD && !is_keyword(&last)) || is_mark(&last, ']') ||
                       is_mark(&last, ')');
        if (operand && is_mark(&t, '[') && next_token(&ahead, end, &name) && is_name(&name) &&
            next_token(&ahead, end, &close) && is_mark(&close, ']')) {
            rc = put(out, ".", 1, err);
            if (!rc)
                rc = put(out, name.s, name.n, err);
            s = ahead;
            last = (struct token){TOK_WORD, name.s, name.n};
            continue;
        }
        if (t.kind == TOK_WORD && last.kind == TOK_WORD)
            rc = put(out, " ", 1, err);
        if (!rc)
            rc = t.kind == TOK_STRING ? put_string(out, &t, true, err) : put(out, t.s, t.n, err);
        last = t;
    }
    return rc;
}

/* One operand of an output: a string alone is text. */
static int put_operand(struct zl_text *out, const char *s, const char *end, struct zl_error *err)
{
    struct token t, more;
    const char *p = s;
    if (!next_token(&p, end, &t))
        return 0;
    if (t.kind == TOK_STRING && !next_token(&p, end, &more))
        return put_string(out, &t, false, err);
    int rc = put(out, "{{", 2, err);
    if (!rc)
        rc = put_tokens(out, s, end, err);
    return rc ? rc : put(out, "}}", 2, err);
}

/* An output, cut at the joining signs outside brackets; with a condition in it, it stays whole. */
static int put_output(struct zl_text *out, const char *s, const char *end, struct zl_error *err)
{
    struct token t;
    int depth = 0, rc = 0;
    bool whole = false;
    for (const char *p = s; next_token(&p, end, &t);)
        whole |= is_keyword(&t);
    const char *from = s;
    for (const char *p = s; !rc && !whole && next_token(&p, end, &t);) {
        depth += is_mark(&t, '(') || is_mark(&t, '[') || is_mark(&t, '{');
        depth -= is_mark(&t, ')') || is_mark(&t, ']') || is_mark(&t, '}');
        if (depth == 0 && (is_mark(&t, '+') || is_mark(&t, '~'))) {
            rc = put_operand(out, from, t.s, err);
            from = p;
        }
    }
    return rc ? rc : put_operand(out, from, end, err);
}

/* Where the tag that opened with `{` and `kind` closes, strings passed over: NULL when it does not.
 */
static const char *find_close(const char *s, const char *end, char kind)
{
    char close = kind == '{' ? '}' : kind;
    while (s + 1 < end) {
        if (kind != '#' && (*s == '\'' || *s == '"')) {
            struct token t;
            next_token(&s, end, &t);
        } else if (s[0] == close && s[1] == '}') {
            return s;
        } else {
            s++;
        }
    }
    return NULL;
}

/* The text before a tag, without what the tag takes away. */
static const char *end_of_text(const char *from, const char *tag, char kind, char mark)
{
    const char *end = tag;
    if (mark == '-') {
        while (end > from && is_blank(end[-1]))
            end--;
    } else if (kind != '{' && mark != '+') {
        while (end > from && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        if (end > from && end[-1] != '\n')
            end = tag;
    }
    return end;
}

int zl_chat_canonical(const char *s, struct zl_text *out, struct zl_error *err)
{
    const char *end = s + strlen(s), *start = s;
    if (end > s && end[-1] == '\n') /* the reference drops one newline at the end */
        end--;
    int rc = put(out, "", 0, err);
    while (!rc && s < end) {
        const char *tag = s;
        while (tag + 1 < end && !(tag[0] == '{' && strchr("{%#", tag[1])))
            tag++;
        if (tag + 1 >= end)
            return put_escaped(out, s, (size_t)(end - s), false, err);
        char kind = tag[1];
        const char *body = tag + 2;
        char mark = body < end && (*body == '-' || *body == '+') ? *body++ : ' ';
        const char *text_end = end_of_text(s, tag, kind, mark);
        rc = put_escaped(out, s, (size_t)(text_end - s), false, err);
        const char *close = find_close(body, end, kind);
        if (!close)
            return rc ? rc
                      : zl_fail(err, ZL_EINPUT, "the chat template has an open tag at byte %zu",
                                (size_t)(tag - start));
        char end_mark = close > body && (close[-1] == '-' || close[-1] == '+') ? close[-1] : ' ';
        const char *body_end = end_mark == ' ' ? close : close - 1;
        s = close + 2;
        if (!rc && kind == '{')
            rc = put_output(out, body, body_end, err);
        else if (!rc && kind == '%') {
            rc = put(out, "{%", 2, err);
            if (!rc)
                rc = put_tokens(out, body, body_end, err);
            if (!rc)
                rc = put(out, "%}", 2, err);
        }
        if (end_mark == '-')
            while (s < end && is_blank(*s))
                s++;
        else if (kind != '{' && end_mark != '+' && s < end && *s == '\n')
            s++;
    }
    return rc;
}
