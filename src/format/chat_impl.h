/* What the files of the chat templates share: see chat.c, chat_template.c, chat_canon.c. */
#ifndef ZL_FORMAT_CHAT_IMPL_H
#define ZL_FORMAT_CHAT_IMPL_H

#include "format/chat.h"
#include "format/tokenizer_impl.h"

/* Append the canonical form of a template: see chat_canon.c. */
int zl_chat_canonical(const char *template, struct zl_text *out, struct zl_error *err);

/* The tokenizer has the special tokens that the template puts out. */
int zl_chat_check_tokens(const struct zl_chat *c, const struct zl_tokenizer *t,
                         struct zl_error *err);

#endif
