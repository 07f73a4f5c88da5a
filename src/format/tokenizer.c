/*
 * The tokenizer as a whole: making it complete after a reader filled it, what others ask of it, and
 * its end. Encoding is in encode.c, decoding in detokenize.c, reading in tokenizer_json.c,
 * tokenizer_dir.c and tokenizer_gguf.c.
 */
#include "config.h"

#include "format/quote.h"
#include "format/tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char gpt2_words[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

/* Special tokens that end a turn or a text, by the names that model families gave them. */
static const char *const end_names[] = {
    "<|im_end|>",    "<|eot_id|>",      "<|eom_id|>", "<|end_of_text|>", "<|endoftext|>",
    "<end_of_turn>", "<|end_of_turn|>", "<|end|>",    "<|eot|>",         "</s>"};

char *zl_tok_strdup(const char *s, size_t n, struct zl_error *err)
{
    char *copy = malloc(n + 1);
    if (!copy) {
        zl_fail(err, ZL_EMEMORY, "no memory for a text of %zu bytes", n);
        return NULL;
    }
    if (n)
        memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

struct zl_tokenizer *zl_tok_new(const char *source, struct zl_error *err)
{
    struct zl_tokenizer *t = calloc(1, sizeof *t);
    if (!t) {
        zl_fail(err, ZL_EMEMORY, "no memory for a tokenizer");
        return NULL;
    }
    t->unk = t->bos = t->eos = -1;
    t->source = zl_tok_strdup(source, strlen(source), err);
    t->raw = calloc(1, sizeof *t->raw);
    t->normalized = calloc(1, sizeof *t->normalized);
    if (!t->source || !t->raw || !t->normalized) {
        zl_fail(err, ZL_EMEMORY, "no memory for a tokenizer");
        zl_tokenizer_close(t);
        return NULL;
    }
    return t;
}

void zl_tokenizer_close(struct zl_tokenizer *t)
{
    if (!t)
        return;
    zl_vocab_free(&t->vocab);
    free(t->merges.slot);
    for (int i = 0; i < t->n_normalizers; i++) {
        free(t->normalizer[i].text.from);
        free(t->normalizer[i].text.to);
        pcre2_code_free(t->normalizer[i].re);
    }
    for (int i = 0; i < t->n_pre; i++) {
        free(t->pre[i].literal);
        pcre2_code_free(t->pre[i].re);
    }
    zl_added_free(t->raw);
    zl_added_free(t->normalized);
    zl_ids_free(&t->before);
    zl_ids_free(&t->after);
    zl_ids_free(&t->ends);
    for (int i = 0; i < t->decoder.n_replace; i++) {
        free(t->decoder.replace[i].from);
        free(t->decoder.replace[i].to);
    }
    free(t->decoder.strip);
    free(t->decoder.bare);
    free(t->decoded);
    free(t->decoded_blob.s);
    free(t->chat_template);
    free(t->source);
    free(t);
}

int zl_tok_add_token(struct zl_tokenizer *t, const struct zl_added_token *token,
                     struct zl_error *err)
{
    t->vocab.piece[token->id].flags |= ZL_PIECE_ADDED | (token->special ? ZL_PIECE_SPECIAL : 0u);
    return zl_added_put(token->normalized ? t->normalized : t->raw, token, err);
}

int zl_tok_add_merge(struct zl_tokenizer *t, uint64_t i, uint32_t rank, const char *left,
                     size_t left_len, const char *right, size_t right_len, struct zl_text *joined,
                     struct zl_error *err)
{
    joined->n = 0;
    int rc = zl_text_add(joined, left, left_len, err);
    if (!rc)
        rc = zl_text_add(joined, right, right_len, err);
    if (rc)
        return rc;
    const struct {
        const char *s;
        size_t len;
    } text[3] = {{left, left_len}, {right, right_len}, {joined->s, joined->n}};
    int32_t id[3];
    for (int k = 0; k < 3; k++) {
        id[k] = zl_vocab_find(&t->vocab, text[k].s, text[k].len);
        if (id[k] < 0 || (t->vocab.piece[id[k]].flags & ZL_PIECE_UNMERGED))
            return zl_fail(err, ZL_EINPUT,
                           "%s: merge %llu needs the token \"%s\", which the vocabulary does not "
                           "have",
                           t->source, (unsigned long long)i, zl_quote_n(text[k].s, text[k].len).s);
    }
    zl_merges_put(&t->merges, id[0], id[1], rank, id[2]);
    return 0;
}

static struct zl_pretokenizer *new_stage(struct zl_tokenizer *t, struct zl_error *err)
{
    if (t->n_pre == ZL_TOK_MAX_STAGES) {
        zl_fail(err, ZL_EINPUT, "%s: more than %d pre-tokenizers", t->source, ZL_TOK_MAX_STAGES);
        return NULL;
    }
    if (t->byte_level) {
        zl_fail(err, ZL_EINPUT, "%s: a pre-tokenizer behind ByteLevel is not supported", t->source);
        return NULL;
    }
    return &t->pre[t->n_pre++];
}

int zl_tok_regex_stage(struct zl_tokenizer *t, const char *pattern, size_t len, enum zl_split how,
                       bool invert, struct zl_error *err)
{
    struct zl_pretokenizer *p = new_stage(t, err);
    if (!p)
        return ZL_EINPUT;
    *p = (struct zl_pretokenizer){.cuts = true, .how = how, .invert = invert};
    return zl_regex_compile(pattern, len, &p->re, err) ? zl_fail_prefix(err, "%s", t->source) : 0;
}

int zl_tok_literal_stage(struct zl_tokenizer *t, const struct zl_pretokenizer *like,
                         const char *literal, size_t len, struct zl_error *err)
{
    struct zl_pretokenizer *p = new_stage(t, err);
    if (!p)
        return ZL_EINPUT;
    *p = *like;
    p->literal = zl_tok_strdup(literal, len, err);
    p->literal_len = len;
    return p->literal ? 0 : ZL_EMEMORY;
}

int zl_tok_byte_level_stage(struct zl_tokenizer *t, bool add_space, bool use_regex,
                            struct zl_error *err)
{
    int rc = 0;
    if (use_regex) {
        rc =
            zl_tok_regex_stage(t, gpt2_words, sizeof gpt2_words - 1, ZL_SPLIT_ISOLATED, false, err);
        if (!rc)
            t->pre[t->n_pre - 1].add_space = add_space;
    } else if (add_space) {
        struct zl_pretokenizer *p = new_stage(t, err);
        if (!p)
            return ZL_EINPUT;
        *p = (struct zl_pretokenizer){.add_space = true};
    }
    t->byte_level = true;
    return rc;
}

static void fill_symbol_tables(struct zl_tokenizer *t)
{
    for (unsigned b = 0; b < 256; b++) {
        char text[8];
        size_t n = zl_byte_to_char((unsigned char)b, text);
        memcpy(t->byte_char[b], text, n);
        if (!t->byte_level)
            n = (size_t)snprintf(text, sizeof text, "<0x%02X>", b);
        int32_t id = zl_vocab_find(&t->vocab, text, n);
        bool symbol = id >= 0 && !(t->vocab.piece[id].flags & ZL_PIECE_UNMERGED);
        t->byte_id[b] = symbol ? id : -1;
        if (b < 128) {
            text[0] = (char)b;
            id = zl_vocab_find(&t->vocab, text, 1);
            symbol = id >= 0 && !(t->vocab.piece[id].flags & ZL_PIECE_UNMERGED);
            t->ascii_id[b] = symbol ? id : -1;
        }
    }
}

/* Tokens that match normalized text are compared in normalized form. */
static int normalize_added(struct zl_tokenizer *t, struct zl_error *err)
{
    struct zl_text buffer[2] = {0};
    pcre2_match_data *md = pcre2_match_data_create(1, NULL);
    int rc = md ? 0 : zl_fail(err, ZL_EMEMORY, "no memory to match patterns");
    for (size_t i = 0; i < t->normalized->n && !rc; i++) {
        struct zl_added_token *a = &t->normalized->token[i];
        const char *out;
        size_t n;
        rc = zl_normalize(t, a->s, a->len, buffer, md, &out, &n, err);
        char *copy = rc ? NULL : zl_tok_strdup(out, n, err);
        if (!copy)
            rc = rc ? rc : ZL_EMEMORY;
        else {
            free((char *)(uintptr_t)a->s);
            a->s = copy;
            a->len = n;
        }
    }
    pcre2_match_data_free(md);
    free(buffer[0].s);
    free(buffer[1].s);
    return rc;
}

int zl_tok_finish(struct zl_tokenizer *t, struct zl_error *err)
{
    int rc = normalize_added(t, err);
    if (!rc)
        rc = zl_added_sort(t->raw, t->source, err);
    if (!rc)
        rc = zl_added_sort(t->normalized, t->source, err);
    if (rc)
        return rc;
    fill_symbol_tables(t);
    zl_tok_find_cuts(t);
    for (size_t i = 0; i < sizeof end_names / sizeof *end_names && !rc; i++) {
        int32_t id = zl_vocab_find(&t->vocab, end_names[i], strlen(end_names[i]));
        if (id >= 0 && (t->vocab.piece[id].flags & ZL_PIECE_SPECIAL))
            rc = zl_ids_add(&t->ends, id, err);
    }
    return rc ? rc : zl_decoder_finish(t, err);
}

static bool is_piece(const struct zl_tokenizer *t, int32_t id)
{
    return id >= 0 && (uint32_t)id < t->vocab.n && (t->vocab.piece[id].flags & ZL_PIECE_PRESENT);
}

int32_t zl_tokenizer_size(const struct zl_tokenizer *t)
{
    return (int32_t)t->vocab.n;
}

int32_t zl_tokenizer_bos(const struct zl_tokenizer *t)
{
    return t->bos;
}

int32_t zl_tokenizer_eos(const struct zl_tokenizer *t)
{
    return t->eos;
}

bool zl_tokenizer_is_end(const struct zl_tokenizer *t, int32_t id)
{
    bool end = id >= 0 && id == t->eos;
    for (size_t i = 0; i < t->ends.n; i++)
        end |= t->ends.id[i] == id;
    return end;
}

bool zl_tokenizer_adds_bos(const struct zl_tokenizer *t)
{
    return t->before.n > 0 && t->before.id[0] == t->bos;
}

bool zl_tokenizer_is_special(const struct zl_tokenizer *t, int32_t id)
{
    return is_piece(t, id) && (t->vocab.piece[id].flags & ZL_PIECE_SPECIAL);
}

int32_t zl_tokenizer_find(const struct zl_tokenizer *t, const char *token)
{
    return zl_vocab_find(&t->vocab, token, strlen(token));
}

const char *zl_tokenizer_token(const struct zl_tokenizer *t, int32_t id, size_t *len)
{
    if (!is_piece(t, id))
        return NULL;
    if (len)
        *len = t->vocab.piece[id].len;
    return t->vocab.piece[id].s;
}

const char *zl_tokenizer_chat_template(const struct zl_tokenizer *t)
{
    return t->chat_template;
}

size_t zl_tok_covers(const struct zl_tokenizer *t, int32_t id)
{
    if (!is_piece(t, id) || id == t->unk)
        return 0;
    if (t->byte_level)
        return t->decoded[id].len;
    return t->byte_fallback && zl_byte_token(t->vocab.piece[id].s, t->vocab.piece[id].len) >= 0
               ? 1
               : t->vocab.piece[id].len;
}
