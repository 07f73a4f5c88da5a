/*
 * Text to token ids and back: byte-level BPE and SentencePiece-style BPE with byte fallback, from
 * tokenizer.json or from GGUF metadata. Ids equal those of Hugging Face's fast tokenizers for the
 * same tokenizer.json.
 */
#ifndef ZL_FORMAT_TOKENIZER_H
#define ZL_FORMAT_TOKENIZER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/gguf.h"

struct zl_tokenizer;

/* Directory with tokenizer.json (and tokenizer_config.json, special_tokens_map.json,
 * generation_config.json, config.json where present: they name BOS, EOS and the chat template). */
int zl_tokenizer_open_dir(const char *dir, struct zl_tokenizer **out, struct zl_error *err);
int zl_tokenizer_open_gguf(const struct zl_gguf *g, struct zl_tokenizer **out,
                           struct zl_error *err);
void zl_tokenizer_close(struct zl_tokenizer *t);

/* A growing list of ids; zero-initialise, free with zl_ids_free. */
struct zl_ids {
    int32_t *id;
    size_t n, capacity;
};
void zl_ids_free(struct zl_ids *ids);

enum {
    ZL_ENCODE_SPECIAL =
        1, /* add what the tokenizer's template adds (BOS …), like add_special_tokens=True */
    ZL_ENCODE_PLAIN = 2 /* the text's own "<s>" and such are text, not special tokens (for user data
                           inside templates) */
};

/* Append the ids of text[0..len) (UTF-8; invalid bytes are an error naming the offset). Thread-safe
 * for one tokenizer as long as each thread has its own ids: no hidden state. On failure ids is as
 * before. As in the reference, a byte or character that the vocabulary has neither a token nor an
 * unknown token for is left out (SmolLM2: some control characters), and added tokens that are not
 * special are recognized with ZL_ENCODE_PLAIN too. */
int zl_tokenizer_encode(const struct zl_tokenizer *t, const char *text, size_t len, unsigned flags,
                        struct zl_ids *ids, struct zl_error *err);

/* Append the decoded text of ids to a growing buffer (malloc'd, NUL-terminated, *len without the
 * NUL). Bytes that are no UTF-8 become U+FFFD as in the reference. skip_special drops special
 * tokens. An id that no token has is an error (a hole, or a row that only fills the matrix up). */
int zl_tokenizer_decode(const struct zl_tokenizer *t, const int32_t *ids, size_t n,
                        bool skip_special, char **text, size_t *len, struct zl_error *err);

/* Streaming: push one id, get the text that is now certain (never half a character); finish
 * flushes. All that is given equals the decoding of the whole; so with byte fallback a run of byte
 * tokens waits for its end. An id that no token has gives nothing. The returned pointer is valid
 * until the next call. */
struct zl_detokenizer;
struct zl_detokenizer *zl_detokenizer_new(const struct zl_tokenizer *t, bool skip_special);
const char *zl_detokenizer_push(struct zl_detokenizer *d, int32_t id, size_t *len);
const char *zl_detokenizer_finish(struct zl_detokenizer *d, size_t *len);
void zl_detokenizer_free(struct zl_detokenizer *d);

int32_t zl_tokenizer_size(const struct zl_tokenizer *t); /* one more than the largest id */
int32_t zl_tokenizer_bos(const struct zl_tokenizer *t);  /* -1: none */
int32_t zl_tokenizer_eos(const struct zl_tokenizer *t);  /* -1: none */
bool zl_tokenizer_is_end(
    const struct zl_tokenizer *t,
    int32_t id); /* EOS, or an end-of-turn token such as <|im_end|>, <|eot_id|> */
bool zl_tokenizer_adds_bos(const struct zl_tokenizer *t);
bool zl_tokenizer_is_special(const struct zl_tokenizer *t, int32_t id);
int32_t zl_tokenizer_find(const struct zl_tokenizer *t,
                          const char *token); /* id of a token by its text, -1: none */
const char *zl_tokenizer_token(const struct zl_tokenizer *t, int32_t id,
                               size_t *len); /* surface as stored; NULL: no such id */
const char *zl_tokenizer_chat_template(const struct zl_tokenizer *t); /* Jinja source or NULL */

#endif
