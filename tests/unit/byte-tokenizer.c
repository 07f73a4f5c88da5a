/* Stands in for the tokenizer and the chat template. */
#include "tests/unit/test.h"
#include "tests/unit/byte-tokenizer.h"
#include "format/chat.h"

struct zl_tokenizer {
    unsigned flags;
};
static const char *const names[4] = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"};

struct zl_tokenizer *byte_tokenizer(unsigned flags)
{
    struct zl_tokenizer *t = malloc(sizeof *t);
    t->flags = flags;
    return t;
}
void byte_tokenizer_close(struct zl_tokenizer *t)
{
    free(t);
}
void zl_ids_free(struct zl_ids *ids)
{
    free(ids->id);
    memset(ids, 0, sizeof *ids);
}
static void push(struct zl_ids *ids, int32_t id)
{
    if (ids->n == ids->capacity) {
        ids->capacity = ids->capacity ? ids->capacity * 2 : 16;
        ids->id = realloc(ids->id, ids->capacity * sizeof *ids->id);
    }
    ids->id[ids->n++] = id;
}
int zl_tokenizer_encode(const struct zl_tokenizer *t, const char *text, size_t len, unsigned flags,
                        struct zl_ids *ids, struct zl_error *err)
{
    if ((flags & ZL_ENCODE_SPECIAL) && (t->flags & BYTES_BOS))
        push(ids, BOS);
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)text[i] >= 0xF8)
            return zl_fail(err, ZL_EINPUT, "byte %zu is no UTF-8", i);
        int k = 4;
        if (!(flags & ZL_ENCODE_PLAIN))
            for (k = 0; k < 4; k++) {
                size_t n = strlen(names[k]);
                if (len - i >= n && !memcmp(text + i, names[k], n)) {
                    push(ids, 256 + k);
                    i += n - 1;
                    break;
                }
            }
        if (k == 4)
            push(ids, (unsigned char)text[i]);
    }
    return 0;
}
struct zl_detokenizer {
    char b[2];
};
struct zl_detokenizer *zl_detokenizer_new(const struct zl_tokenizer *t, bool s)
{
    (void)t;
    (void)s;
    return calloc(1, sizeof(struct zl_detokenizer));
}
const char *zl_detokenizer_push(struct zl_detokenizer *d, int32_t id, size_t *len)
{
    if (id >= 256) {
        *len = strlen(names[id - 256]);
        return names[id - 256];
    }
    d->b[0] = (char)id;
    *len = 1;
    return d->b;
}
const char *zl_detokenizer_finish(struct zl_detokenizer *d, size_t *len)
{
    (void)d;
    *len = 0;
    return "";
}
void zl_detokenizer_free(struct zl_detokenizer *d)
{
    free(d);
}
int32_t zl_tokenizer_bos(const struct zl_tokenizer *t)
{
    (void)t;
    return BOS;
}
int32_t zl_tokenizer_eos(const struct zl_tokenizer *t)
{
    return t->flags & BYTES_NO_EOS ? -1 : EOS;
}
bool zl_tokenizer_is_end(const struct zl_tokenizer *t, int32_t id)
{
    return id == IM_END || id == zl_tokenizer_eos(t);
}
bool zl_tokenizer_adds_bos(const struct zl_tokenizer *t)
{
    return t->flags & BYTES_BOS;
}
int zl_chat_recognize(const struct zl_tokenizer *t, struct zl_chat *out, struct zl_error *err)
{
    memset(out, 0, sizeof *out);
    if (t->flags & BYTES_ODD_TEMPLATE)
        return zl_fail(err, ZL_EINPUT, "the chat template is not known");
    out->kind = t->flags & BYTES_CHATML ? ZL_CHAT_CHATML : ZL_CHAT_NONE;
    return 0;
}
void zl_chat_free(struct zl_chat *c)
{
    free(c->default_system);
    memset(c, 0, sizeof *c);
}
int zl_chat_render(const struct zl_chat *c, const struct zl_tokenizer *t,
                   const struct zl_message *m, size_t n, bool g, struct zl_ids *ids,
                   uint8_t **trained, size_t *cap, struct zl_error *err)
{
    (void)c;
    (void)g;
    if (t->flags & BYTES_BOS) /* the template has one of its own */
        push(ids, BOS);
    for (size_t i = 0; i < n; i++) {
        size_t from;
        push(ids, IM_START);
        zl_tokenizer_encode(t, m[i].role, strlen(m[i].role), 2, ids, err);
        push(ids, '\n');
        from = ids->n;
        zl_tokenizer_encode(t, m[i].content, m[i].len, 2, ids, err);
        push(ids, IM_END);
        push(ids, '\n');
        if (*cap < ids->n) {
            *trained = realloc(*trained, ids->n * 2);
            *cap = ids->n * 2;
        }
        size_t s = from - strlen(m[i].role) - 2;
        if (i == 0)
            s = 0;
        memset(*trained + s, 0, ids->n - s);
        if (!strcmp(m[i].role, "assistant") && !(t->flags & BYTES_UNMARKED))
            memset(*trained + from, 1, ids->n - 1 - from);
    }
    return 0;
}
