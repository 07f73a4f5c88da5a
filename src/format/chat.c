/*
 * Rendering messages as the recognised template does, straight to ids: the template's special
 * tokens are put down by id, what lies between them is encoded as plain text, so nothing in a
 * message can become a special token and the labels are known on the way. The ids are those of the
 * rendered text as a whole, because a special token always separates what is on its two sides.
 *
 *     ChatML   <|im_start|> role \n content <|im_end|> \n
 *     Llama 3  <|start_header_id|> role <|end_header_id|> \n\n content <|eot_id|>
 */
#include "config.h"

#include "format/quote.h"
#include "format/chat_impl.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

static const struct layout {
    const char *open;      /* before the role */
    const char *open_end;  /* behind the role, or NULL: then it shares a text with the content */
    const char *separator; /* before the content */
    const char *close;     /* ends the turn; a label in the assistant's */
    const char *after;     /* text behind the end, or NULL */
} layouts[] = {
    [ZL_CHAT_CHATML] = {"<|im_start|>", NULL, "\n", "<|im_end|>", "\n"},
    [ZL_CHAT_LLAMA3] = {"<|start_header_id|>", "<|end_header_id|>", "\n\n", "<|eot_id|>", NULL},
};

struct render {
    const struct zl_chat *c;
    const struct zl_tokenizer *t;
    const struct layout *l;
    struct zl_ids *ids;
    uint8_t **trained;
    size_t *capacity;
    struct zl_error *err;
};

/* Mark ids from..ids->n. */
static int mark(struct render *r, size_t from, uint8_t label)
{
    if (!r->trained)
        return 0;
    if (r->ids->n > *r->capacity) {
        size_t want = r->ids->capacity;
        uint8_t *grown = realloc(*r->trained, want);
        if (!grown)
            return zl_fail(r->err, ZL_EMEMORY, "no memory for %zu labels", want);
        *r->trained = grown;
        *r->capacity = want;
    }
    if (r->ids->n > from)
        memset(*r->trained + from, label, r->ids->n - from);
    return 0;
}

static int special(struct render *r, const char *token, uint8_t label)
{
    size_t from = r->ids->n;
    int rc = zl_ids_add(r->ids, zl_tokenizer_find(r->t, token), r->err);
    return rc ? rc : mark(r, from, label);
}

/* Where, behind `from`, the ids of head + content leave the head: an id that holds bytes of both
 * belongs to the head, since nobody who writes the content can choose it. */
static int end_of_head(struct render *r, const char *head, size_t head_n, size_t from, size_t *end)
{
    struct zl_ids alone = {0};
    int rc = zl_tokenizer_encode(r->t, head, head_n, ZL_ENCODE_PLAIN | ZL_ENCODE_CONTINUES, &alone,
                                 r->err);
    size_t same = 0, bytes = 0;
    while (same < alone.n && from + same < r->ids->n && alone.id[same] == r->ids->id[from + same])
        same++;
    for (size_t i = same; i < alone.n; i++)
        bytes += zl_tok_covers(r->t, alone.id[i]);
    *end = from + same;
    for (size_t covered = 0; covered < bytes && *end < r->ids->n; ++*end)
        covered += zl_tok_covers(r->t, r->ids->id[*end]);
    zl_ids_free(&alone);
    return rc;
}

/* head and content as one text; the content's ids get the label. */
static int text(struct render *r, const char *head, size_t head_n, const char *content, size_t n,
                uint8_t label)
{
    struct zl_text whole = {0};
    size_t from = r->ids->n, end = from;
    int rc = zl_text_add(&whole, head, head_n, r->err);
    if (!rc)
        rc = zl_text_add(&whole, content, n, r->err);
    if (!rc)
        rc = zl_tokenizer_encode(r->t, whole.s, whole.n, ZL_ENCODE_PLAIN | ZL_ENCODE_CONTINUES,
                                 r->ids, r->err);
    if (!rc)
        rc = mark(r, from, 0);
    if (!rc && label && r->trained && n) {
        rc = end_of_head(r, head, head_n, from, &end);
        if (!rc)
            rc = mark(r, end, 1);
    }
    free(whole.s);
    return rc;
}

/* What str.strip() of the reference takes for blanks. */
static bool is_stripped(int32_t c)
{
    return zl_char_is_space(c) || (c >= 0x1c && c <= 0x1f);
}

static void trim(const char **s, size_t *n)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t step;
    while (*n &&
           (step = utf8proc_iterate((const utf8proc_uint8_t *)*s, (utf8proc_ssize_t)*n, &c)) > 0 &&
           is_stripped(c)) {
        *s += step;
        *n -= (size_t)step;
    }
    while (*n) {
        size_t last = *n - 1;
        while (last > 0 && ((unsigned char)(*s)[last] & 0xc0) == 0x80)
            last--;
        if (utf8proc_iterate((const utf8proc_uint8_t *)*s + last, (utf8proc_ssize_t)(*n - last),
                             &c) <= 0 ||
            !is_stripped(c))
            return;
        *n = last;
    }
}

/* The opening of a turn and, with content, the rest of it. */
static int turn(struct render *r, const char *role, const char *content, size_t n)
{
    const struct layout *l = r->l;
    uint8_t label = content && strcmp(role, "assistant") == 0;
    struct zl_text head = {0};
    int rc = special(r, l->open, 0);
    if (!rc && l->open_end) {
        rc = text(r, role, strlen(role), "", 0, 0);
        if (!rc)
            rc = special(r, l->open_end, 0);
    } else if (!rc) {
        rc = zl_text_add(&head, role, strlen(role), r->err);
    }
    if (!rc)
        rc = zl_text_add(&head, l->separator, strlen(l->separator), r->err);
    if (content && r->c->trim)
        trim(&content, &n);
    if (!rc)
        rc = text(r, head.s, head.n, content ? content : "", n, label);
    if (!rc && content)
        rc = special(r, l->close, label);
    if (!rc && content && l->after)
        rc = text(r, l->after, strlen(l->after), "", 0, 0);
    free(head.s);
    return rc;
}

static int check_message(const struct render *r, const struct zl_message *m, size_t i)
{
    size_t bad = zl_utf8_check(m->content, m->len);
    if (bad < m->len)
        return zl_fail(r->err, ZL_EINPUT, "byte %zu of message %zu is not valid UTF-8", bad, i + 1);
    if (!r->c->plain_roles || strcmp(m->role, "system") == 0 || strcmp(m->role, "user") == 0 ||
        strcmp(m->role, "assistant") == 0)
        return 0;
    return zl_fail(
        r->err, ZL_EINPUT,
        "message %zu has the role \"%s\", which the chat template treats in a way of its "
        "own that is not supported",
        i + 1, zl_quote(m->role).s);
}

int zl_chat_render(const struct zl_chat *c, const struct zl_tokenizer *t,
                   const struct zl_message *m, size_t n, bool add_generation_prompt,
                   struct zl_ids *ids, uint8_t **trained, size_t *trained_capacity,
                   struct zl_error *err)
{
    if (c->kind == ZL_CHAT_NONE)
        return zl_fail(err, ZL_EINPUT, "%s: there is no chat template", t->source);
    if (n == 0)
        return zl_fail(err, ZL_EINPUT, "a chat without a message cannot be rendered");
    struct render r = {.c = c,
                       .t = t,
                       .l = &layouts[c->kind],
                       .ids = ids,
                       .trained = trained,
                       .capacity = trained_capacity,
                       .err = err};
    size_t from = ids->n;
    int rc = 0;
    for (size_t i = 0; i < n && !rc; i++)
        rc = check_message(&r, &m[i], i);
    if (!rc && c->bos) {
        rc = zl_ids_add(ids, t->bos, err);
        if (!rc)
            rc = mark(&r, from, 0);
    }
    if (!rc && c->default_system && strcmp(m[0].role, "system") != 0)
        rc = turn(&r, "system", c->default_system, strlen(c->default_system));
    for (size_t i = 0; i < n && !rc; i++)
        rc = turn(&r, m[i].role, m[i].content, m[i].len);
    if (!rc && add_generation_prompt)
        rc = turn(&r, "assistant", NULL, 0);
    if (rc)
        ids->n = from;
    return rc;
}

static const struct zl_added_token *find_added(const struct zl_added *a, int32_t id)
{
    for (size_t i = 0; i < a->n; i++)
        if (a->token[i].id == id)
            return &a->token[i];
    return NULL;
}

int zl_chat_check_tokens(const struct zl_chat *c, const struct zl_tokenizer *t,
                         struct zl_error *err)
{
    const struct layout *l = &layouts[c->kind];
    const char *const names[] = {l->open, l->open_end, l->close};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!names[i])
            continue;
        int32_t id = zl_tokenizer_find(t, names[i]);
        const struct zl_added_token *a = find_added(t->raw, id);
        a = a ? a : find_added(t->normalized, id);
        if (id < 0 || !a)
            return zl_fail(err, ZL_EINPUT,
                           "the chat template uses %s, which is no added token of the tokenizer",
                           names[i]);
        if (a->lstrip || a->rstrip || a->single_word)
            return zl_fail(
                err, ZL_EINPUT,
                "the chat template's %s takes blanks beside it or stands alone only, which "
                "is not supported in a template",
                names[i]);
    }
    if (c->bos && t->bos < 0)
        return zl_fail(err, ZL_EINPUT, "the chat template puts bos_token first, but there is none");
    return 0;
}
