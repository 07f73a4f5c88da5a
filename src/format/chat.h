/*
 * Chat messages to tokens by recognising the model's template (ChatML, Llama-3), not by running
 * Jinja: a template that is not recognised is an error that names it; never a fallback to another.
 * Which tokens are trained is known while rendering.
 */
#ifndef ZL_FORMAT_CHAT_H
#define ZL_FORMAT_CHAT_H

#include "format/tokenizer.h"

enum zl_chat_kind { ZL_CHAT_NONE, ZL_CHAT_CHATML, ZL_CHAT_LLAMA3 };

struct zl_message {
    const char *role;    /* "system", "user", "assistant" */
    const char *content; /* UTF-8 */
    size_t len;
};

/* What the tokenizer's template is; ZL_CHAT_NONE without a template; ZL_EINPUT with a template that
 * is none of ours. For ChatML the default system message, which some templates put first (SmolLM2,
 * Qwen2.5), is taken from the template's own text. */
struct zl_chat {
    enum zl_chat_kind kind;
    char *default_system; /* or NULL; owned */
    bool bos;             /* the template puts the BOS first */
    bool trim;            /* it strips blanks around contents */
    bool plain_roles;     /* it treats other roles than system, user, assistant in its own way */
};
int zl_chat_recognize(const struct zl_tokenizer *t, struct zl_chat *out, struct zl_error *err);
void zl_chat_free(struct zl_chat *c);

/* Append tokens of the rendered messages to ids and, for each, 1 to trained[] when it belongs to an
 * assistant turn's content or to the token that ends that turn (parallel growing array of bytes,
 * may be NULL). add_generation_prompt opens an assistant turn at the end. Message contents cannot
 * inject special tokens (ZL_ENCODE_PLAIN). Exactly one BOS where the template has one. */
int zl_chat_render(const struct zl_chat *c, const struct zl_tokenizer *t,
                   const struct zl_message *m, size_t n, bool add_generation_prompt,
                   struct zl_ids *ids, uint8_t **trained, size_t *trained_capacity,
                   struct zl_error *err);

#endif
