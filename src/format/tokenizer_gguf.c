/*
 * The tokenizer in a GGUF file's metadata: tokenizer.ggml.model "gpt2" (byte-level BPE with a list
 * of merges; tokenizer.ggml.pre names how text is cut into words) and "llama" (SentencePiece: the
 * pair whose joined piece has the highest score merges first). Other models are refused by name.
 *
 *     tokens       strings   text of each id
 *     token_type   i32       1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte
 *     scores       f32       llama: the higher, the earlier a piece is merged
 *     merges       strings   gpt2: "left right", in order of rank
 *     pre          string    gpt2: a name of the table below
 *
 * Control, unknown and user-defined tokens are matched in the text as added tokens; the first two
 * are special. Unused tokens, which fill the matrix of embeddings up, are left out. Ids equal those
 * of the tokenizer.json that the file was made from, so "qwen2" normalizes to NFC although the file
 * does not say so.
 */
#include "config.h"

#include "format/quote.h"
#include "format/tokenizer_impl.h"

#include <stdlib.h>
#include <string.h>

#define KEY(name) "tokenizer.ggml." name
#define MAX_PIECE 1024 /* bytes of a SentencePiece piece: its splits are all looked up */

enum { TYPE_NORMAL = 1, TYPE_UNKNOWN, TYPE_CONTROL, TYPE_USER, TYPE_UNUSED, TYPE_BYTE };

/* ---- how text is cut into words, by name ---- */
#define GPT2_WORDS                                                                                 \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CL100K_WORDS(digits)                                                                       \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                           \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

struct words {
    const char *name;
    const char
        *pattern[4]; /* applied one after the other, each inside the parts of the one before */
    bool nfc, ignore_merges, adds_bos;
};

#define GPT2   .pattern = {GPT2_WORDS}
#define SMOLLM .pattern = {"\\p{N}", GPT2_WORDS}
#define LLAMA3 .pattern = {CL100K_WORDS("\\p{N}{1,3}")}, .ignore_merges = true, .adds_bos = true
#define QWEN2  .pattern = {CL100K_WORDS("\\p{N}")}, .nfc = true

static const struct words words[] = {
    {"default", .pattern = {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"gpt-2", GPT2},
    {"gpt2", GPT2},
    {"phi-2", GPT2},
    {"olmo", GPT2},
    {"mpt", GPT2},
    {"smollm", SMOLLM},
    {"smollm2", SMOLLM},
    {"starcoder", SMOLLM},
    {"refact", SMOLLM},
    {"command-r", SMOLLM},
    {"codeshell", SMOLLM},
    {"llama-bpe", LLAMA3},
    {"llama3", LLAMA3},
    {"llama-v3", LLAMA3},
    {"qwen2", QWEN2},
    {"deepseek-r1-qwen", QWEN2},
};

static int read_words(const struct zl_gguf *g, struct zl_tokenizer *t, bool *adds_bos,
                      struct zl_error *err)
{
    const char *name = "default";
    size_t len = strlen(name);
    int rc = zl_gguf_string(g, KEY("pre"), &name, &len, err);
    if (rc < 0)
        return rc;
    const struct words *w = NULL;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].name) == len && memcmp(words[i].name, name, len) == 0)
            w = &words[i];
    if (!w)
        return zl_fail(err, ZL_EINPUT, "%s: " KEY("pre") " \"%s\" is not supported", t->source,
                       zl_quote_n(name, len).s);
    rc = 0;
    for (size_t i = 0; i < 4 && w->pattern[i] && !rc; i++)
        rc = zl_tok_regex_stage(t, w->pattern[i], strlen(w->pattern[i]), ZL_SPLIT_ISOLATED, false,
                                err);
    if (w->nfc)
        t->normalizer[t->n_normalizers++] = (struct zl_normalizer){.kind = ZL_NORM_NFC};
    t->ignore_merges = w->ignore_merges;
    *adds_bos = w->adds_bos;
    return rc ? rc : zl_tok_byte_level_stage(t, false, false, err);
}

/* ---- vocabulary ---- */
struct arrays {
    const struct zl_gguf_str *tokens;
    const int32_t *types; /* NULL: all normal */
    uint64_t n;
};

static int read_arrays(const struct zl_gguf *g, struct zl_tokenizer *t, struct arrays *a,
                       struct zl_error *err)
{
    uint64_t n_types = 0;
    int rc = zl_gguf_strings(g, KEY("tokens"), &a->tokens, &a->n, err);
    if (rc == 1 || (rc == 0 && a->n == 0))
        return zl_fail(err, ZL_EINPUT, "%s: there is no vocabulary in " KEY("tokens"), t->source);
    if (rc < 0 || (rc = zl_gguf_i32s(g, KEY("token_type"), &a->types, &n_types, err)) < 0)
        return rc;
    if (a->types && n_types != a->n)
        return zl_fail(
            err, ZL_EINPUT,
            "%s: " KEY("token_type") " has %llu entries, expected %llu as in " KEY("tokens"),
            t->source, (unsigned long long)n_types, (unsigned long long)a->n);
    if (a->n >= INT32_MAX)
        return zl_fail(err, ZL_EINPUT, "%s: %llu tokens are too many", t->source,
                       (unsigned long long)a->n);
    const struct zl_named_tensor *e = zl_tensors_find(zl_gguf_tensors(g), "token_embd.weight");
    if (e && e->t.n_dims == 2 && e->t.shape[0] < a->n)
        return zl_fail(
            err, ZL_EINPUT,
            "%s: " KEY("tokens") " has %llu entries, but token_embd.weight has %llu rows",
            t->source, (unsigned long long)a->n, (unsigned long long)e->t.shape[0]);
    return 0;
}

static int read_token(const struct arrays *a, uint64_t id, struct zl_tokenizer *t,
                      struct zl_error *err)
{
    const struct zl_gguf_str *s = &a->tokens[id];
    int32_t type = a->types ? a->types[id] : TYPE_NORMAL;
    if (type == TYPE_UNUSED || s->len == 0)
        return 0;
    if (type < TYPE_NORMAL || type > TYPE_BYTE)
        return zl_fail(err, ZL_EINPUT, "%s: token %llu has type %d, expected 1 to 6", t->source,
                       (unsigned long long)id, type);
    size_t len = (size_t)s->len;
    if (len > ZL_TOK_MAX_SURFACE || zl_utf8_check(s->s, len) != len)
        return zl_fail(err, ZL_EINPUT, "%s: token %llu is no UTF-8 text of at most %d bytes",
                       t->source, (unsigned long long)id, ZL_TOK_MAX_SURFACE);
    bool special = type == TYPE_CONTROL || type == TYPE_UNKNOWN;
    if (!zl_vocab_put(&t->vocab, (uint32_t)id, s->s, len, special ? ZL_PIECE_UNMERGED : 0))
        return zl_fail(err, ZL_EINPUT, "%s: tokens %d and %llu have the same text \"%s\"",
                       t->source, zl_vocab_find(&t->vocab, s->s, len), (unsigned long long)id,
                       zl_quote_n(s->s, len).s);
    if (!special && type != TYPE_USER)
        return 0;
    const struct zl_added_token token = {
        .id = (int32_t)id, .s = s->s, .len = len, .special = special};
    return zl_tok_add_token(t, &token, err);
}

static int read_vocabulary(const struct arrays *a, struct zl_tokenizer *t, struct zl_error *err)
{
    size_t bytes = 0;
    for (uint64_t i = 0; i < a->n; i++)
        bytes += (size_t)a->tokens[i].len + 1; /* all of them lie in the file: no overflow */
    int rc = zl_vocab_reserve(&t->vocab, (uint32_t)a->n, bytes, err);
    for (uint64_t i = 0; i < a->n && !rc; i++)
        rc = read_token(a, i, t, err);
    return rc;
}

/* An id by its key; -1 when the key is absent. */
static int read_id(const struct zl_gguf *g, const struct zl_tokenizer *t, const char *key,
                   int32_t *out, struct zl_error *err)
{
    uint64_t id = 0;
    int rc = zl_gguf_u64(g, key, &id, err);
    *out = -1;
    if (rc)
        return rc < 0 ? rc : 0;
    if (id == UINT32_MAX) /* how some writers say "none" */
        return 0;
    if (id >= t->vocab.n)
        return zl_fail(err, ZL_EINPUT, "%s: %s is %llu, but there are %u tokens", t->source, key,
                       (unsigned long long)id, t->vocab.n);
    if (t->vocab.piece[id].flags & ZL_PIECE_PRESENT)
        *out = (int32_t)id;
    return 0;
}

/* ---- model "gpt2" ---- */
static int read_merges(const struct zl_gguf *g, struct zl_tokenizer *t, struct zl_error *err)
{
    const struct zl_gguf_str *merges = NULL;
    struct zl_text joined = {0};
    uint64_t n = 0;
    int rc = zl_gguf_strings(g, KEY("merges"), &merges, &n, err);
    if (rc == 1)
        return zl_fail(err, ZL_EINPUT, "%s: there is no " KEY("merges"), t->source);
    if (rc < 0)
        return rc;
    if (n >= 1u << 30)
        return zl_fail(err, ZL_EINPUT, "%s: %llu merges are too many", t->source,
                       (unsigned long long)n);
    rc = zl_merges_reserve(&t->merges, (uint32_t)n, err);
    for (uint64_t i = 0; i < n && !rc; i++) {
        size_t len = (size_t)merges[i].len;
        const char *s = merges[i].s, *blank = len ? memchr(s, ' ', len) : NULL;
        size_t left = blank ? (size_t)(blank - s) : 0;
        if (!blank || memchr(blank + 1, ' ', len - left - 1))
            rc = zl_fail(err, ZL_EINPUT, "%s: merge %llu is no \"left right\" with one blank",
                         t->source, (unsigned long long)i);
        else
            rc = zl_tok_add_merge(t, i, (uint32_t)i, s, left, blank + 1, len - left - 1, &joined,
                                  err);
    }
    free(joined.s);
    return rc;
}

static int read_gpt2(const struct zl_gguf *g, struct zl_tokenizer *t, bool *adds_bos,
                     struct zl_error *err)
{
    t->decoder.kind = ZL_DECODE_BYTE_LEVEL;
    int rc = read_words(g, t, adds_bos, err);
    return rc ? rc : read_merges(g, t, err);
}

/* ---- model "llama" ---- */
struct scored {
    float score;
    int32_t id;
};

static int by_score(const void *pa, const void *pb)
{
    const struct scored *a = pa, *b = pb;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static bool can_merge(const struct zl_tokenizer *t, const struct arrays *a, int32_t id)
{
    const struct zl_piece *p = &t->vocab.piece[id];
    return (p->flags & ZL_PIECE_PRESENT) && !(p->flags & ZL_PIECE_UNMERGED) &&
           !(a->types && a->types[id] == TYPE_BYTE);
}

/* All ways to put a piece together from two, walked twice: to count them and to store them. */
static uint64_t split_piece(struct zl_tokenizer *t, const struct arrays *a, int32_t id,
                            uint32_t rank, bool store)
{
    const struct zl_piece *p = &t->vocab.piece[id];
    uint64_t n = 0;
    for (size_t cut = (size_t)zl_utf8_step(p->s, p->len); cut < p->len;
         cut += (size_t)zl_utf8_step(p->s + cut, p->len - cut)) {
        int32_t left = zl_vocab_find(&t->vocab, p->s, cut);
        int32_t right = zl_vocab_find(&t->vocab, p->s + cut, p->len - cut);
        if (left < 0 || right < 0 || !can_merge(t, a, left) || !can_merge(t, a, right))
            continue;
        n++;
        if (store)
            zl_merges_put(&t->merges, left, right, rank, id);
    }
    return n;
}

/* Pieces of equal score have equal rank: of those the leftmost pair merges first. */
static int merges_from_scores(const float *scores, const struct arrays *a, struct zl_tokenizer *t,
                              struct zl_error *err)
{
    struct scored *order = malloc((size_t)a->n * sizeof *order);
    size_t n = 0;
    uint64_t merges = 0;
    int rc = order ? 0 : zl_fail(err, ZL_EMEMORY, "no memory to sort %zu scores", (size_t)a->n);
    for (uint64_t i = 0; i < a->n && !rc; i++) {
        int32_t id = (int32_t)i;
        if (!can_merge(t, a, id))
            continue;
        if (!(scores[i] >= -1e30f && scores[i] <= 1e30f))
            rc = zl_fail(err, ZL_EINPUT, "%s: the score of token %d is no finite number", t->source,
                         id);
        else if (t->vocab.piece[i].len > MAX_PIECE)
            rc = zl_fail(err, ZL_EINPUT, "%s: token %d is %u bytes long, at most %d are supported",
                         t->source, id, t->vocab.piece[i].len, MAX_PIECE);
        else
            order[n++] = (struct scored){scores[i], id};
    }
    for (size_t i = 0; i < n && !rc; i++)
        merges += split_piece(t, a, order[i].id, 0, false);
    if (!rc && merges >= 1u << 30)
        rc = zl_fail(err, ZL_EINPUT, "%s: the pieces can be split in too many ways", t->source);
    if (!rc)
        rc = zl_merges_reserve(&t->merges, (uint32_t)merges, err);
    if (!rc && n)
        qsort(order, n, sizeof *order, by_score);
    uint32_t rank = 0;
    for (size_t i = 0; i < n && !rc; i++) {
        rank += i > 0 && order[i].score != order[i - 1].score;
        split_piece(t, a, order[i].id, rank, true);
    }
    free(order);
    return rc;
}

static int read_llama(const struct zl_gguf *g, const struct arrays *a, struct zl_tokenizer *t,
                      struct zl_error *err)
{
    static const char space[] = "\xe2\x96\x81"; /* U+2581 stands for a blank */
    const float *scores = NULL;
    uint64_t n = 0;
    bool prefix = true;
    int rc = zl_gguf_f32s(g, KEY("scores"), &scores, &n, err);
    if (rc < 0 || (rc = zl_gguf_bool(g, KEY("add_space_prefix"), &prefix, err)) < 0)
        return rc;
    if (!scores || n != a->n)
        return zl_fail(err, ZL_EINPUT,
                       "%s: " KEY("scores") " has %llu entries, expected %llu as in " KEY("tokens"),
                       t->source, (unsigned long long)n, (unsigned long long)a->n);
    t->byte_fallback = t->fuse_unk = true;
    if ((rc = read_id(g, t, KEY("unknown_token_id"), &t->unk, err)) != 0)
        return rc;
    for (uint64_t i = 0; i < a->n && t->unk < 0 && a->types; i++)
        if (a->types[i] == TYPE_UNKNOWN)
            t->unk = (int32_t)i;
    if (prefix)
        t->normalizer[t->n_normalizers++] = (struct zl_normalizer){
            .kind = ZL_NORM_PREPEND, .text = {.to = zl_tok_strdup(space, 3, err), .to_len = 3}};
    t->normalizer[t->n_normalizers++] = (struct zl_normalizer){
        .kind = ZL_NORM_REPLACE,
        .text = {zl_tok_strdup(" ", 1, err), zl_tok_strdup(space, 3, err), 1, 3}};
    struct zl_decoder *d = &t->decoder;
    d->kind = ZL_DECODE_PIECES;
    d->byte_fallback = true;
    d->replace[d->n_replace++] =
        (struct zl_replace){zl_tok_strdup(space, 3, err), zl_tok_strdup(" ", 1, err), 3, 1};
    d->strip = zl_tok_strdup(" ", 1, err);
    d->strip_len = 1;
    d->strip_n = prefix;
    for (int i = 0; i < t->n_normalizers; i++)
        if (!t->normalizer[i].text.to || (i == t->n_normalizers - 1 && !t->normalizer[i].text.from))
            return ZL_EMEMORY;
    if (!d->replace[0].from || !d->replace[0].to || !d->strip)
        return ZL_EMEMORY;
    return merges_from_scores(scores, a, t, err);
}

/* ---- beginnings, ends, template ---- */
static int read_ends(const struct zl_gguf *g, struct zl_tokenizer *t, bool adds_bos,
                     struct zl_error *err)
{
    int32_t eot, eom;
    bool adds_eos = false;
    int found, rc = read_id(g, t, KEY("bos_token_id"), &t->bos, err);
    if (rc || (rc = read_id(g, t, KEY("eos_token_id"), &t->eos, err)) != 0 ||
        (rc = read_id(g, t, KEY("eot_token_id"), &eot, err)) != 0 ||
        (rc = read_id(g, t, KEY("eom_token_id"), &eom, err)) != 0 ||
        (rc = found = zl_gguf_bool(g, KEY("add_bos_token"), &adds_bos, err)) < 0 ||
        (rc = zl_gguf_bool(g, KEY("add_eos_token"), &adds_eos, err)) < 0)
        return rc;
    rc = 0;
    if (eot >= 0)
        rc = zl_ids_add(&t->ends, eot, err);
    if (!rc && eom >= 0)
        rc = zl_ids_add(&t->ends, eom, err);
    if ((adds_bos && found == 0 && t->bos < 0) || (adds_eos && t->eos < 0))
        return zl_fail(err, ZL_EINPUT,
                       "%s: the tokenizer adds a token that no bos_token_id or eos_token_id names",
                       t->source);
    if (!rc && adds_bos && t->bos >= 0)
        rc = zl_ids_add(&t->before, t->bos, err);
    if (!rc && adds_eos)
        rc = zl_ids_add(&t->after, t->eos, err);
    return rc;
}

static int read_template(const struct zl_gguf *g, struct zl_tokenizer *t, struct zl_error *err)
{
    const char *s = NULL;
    size_t len = 0;
    int rc = zl_gguf_string(g, "tokenizer.chat_template", &s, &len, err);
    if (rc)
        return rc < 0 ? rc : 0;
    if (zl_utf8_check(s, len) != len || (len && memchr(s, '\0', len)))
        return zl_fail(err, ZL_EINPUT, "%s: tokenizer.chat_template is no UTF-8 text", t->source);
    t->chat_template = zl_tok_strdup(s, len, err);
    return t->chat_template ? 0 : ZL_EMEMORY;
}

static int read_all(const struct zl_gguf *g, struct zl_tokenizer *t, struct zl_error *err)
{
    const char *model = NULL;
    size_t len = 0;
    struct arrays a = {0};
    int rc = zl_gguf_string(g, KEY("model"), &model, &len, err);
    if (rc == 1)
        return zl_fail(err, ZL_EINPUT, "%s: there is no " KEY("model"), t->source);
    if (rc < 0)
        return rc;
    bool llama = len == 5 && memcmp(model, "llama", 5) == 0;
    if (!llama && !(len == 4 && memcmp(model, "gpt2", 4) == 0))
        return zl_fail(err, ZL_EINPUT,
                       "%s: the tokenizer model \"%s\" is not supported, expected \"gpt2\" or "
                       "\"llama\"",
                       t->source, zl_quote_n(model, len).s);
    bool adds_bos = llama;
    if ((rc = read_arrays(g, t, &a, err)) != 0 || (rc = read_vocabulary(&a, t, err)) != 0)
        return rc;
    rc = llama ? read_llama(g, &a, t, err) : read_gpt2(g, t, &adds_bos, err);
    if (rc || (rc = read_ends(g, t, adds_bos, err)) != 0 || (rc = read_template(g, t, err)) != 0)
        return rc;
    return zl_tok_finish(t, err);
}

int zl_tokenizer_open_gguf(const struct zl_gguf *g, struct zl_tokenizer **out, struct zl_error *err)
{
    struct zl_tokenizer *t = zl_tok_new(zl_gguf_path(g), err);
    int rc = t ? read_all(g, t, err) : ZL_EMEMORY;
    if (rc)
        zl_tokenizer_close(t);
    else
        *out = t;
    return rc;
}
