/*
 * What the files of the tokenizer share: the one structure that both readers (tokenizer.json, GGUF
 * metadata) fill and that encoding and decoding read. Nothing outside src/format includes this.
 * Invariant: after zl_tok_finish() the structure never changes, so any number of threads may use
 * it; everything that changes while encoding lives in a scratch of the call.
 *
 * The order of work is that of Hugging Face's tokenizers: cut at added tokens that match raw text,
 * normalize each rest, cut at added tokens that match normalized text, pre-tokenize each rest,
 * merge each word, and put the template around the whole.
 */
#ifndef ZL_FORMAT_TOKENIZER_IMPL_H
#define ZL_FORMAT_TOKENIZER_IMPL_H

#include "format/tokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

enum {
    ZL_TOK_MAX_STAGES = 16,       /* normalizers, pre-tokenizers or decoders of one tokenizer */
    ZL_TOK_MAX_SURFACE = 1 << 16, /* bytes of one token's text */
    ZL_ENCODE_CONTINUES =
        1 << 8 /* internal flag: the text is not the start of the document (Metaspace "first") */
};

/* A growing string. */
struct zl_text {
    char *s;
    size_t n, capacity;
};
int zl_text_add(struct zl_text *t, const char *s, size_t n,
                struct zl_error *err); /* keeps a NUL behind the text */

/* ---- vocab.c: ids and their texts ---- */
enum { ZL_PIECE_PRESENT = 1, ZL_PIECE_ADDED = 2, ZL_PIECE_SPECIAL = 4, ZL_PIECE_UNMERGED = 8 };

struct zl_piece {
    const char *s; /* in the vocabulary's blob, NUL-terminated */
    uint32_t len;
    uint32_t flags;
};

struct zl_vocab {
    struct zl_piece *piece; /* [n]; holes have no ZL_PIECE_PRESENT */
    uint32_t n;             /* one more than the largest id */
    uint32_t *slot;         /* hash by text: id + 1, or 0 */
    uint32_t slots;         /* a power of two */
    char *blob;
    size_t blob_n, blob_size;
};

/* Room for ids 0..n-1 whose texts have `bytes` bytes in all. */
int zl_vocab_reserve(struct zl_vocab *v, uint32_t n, size_t bytes, struct zl_error *err);
/* False when the id or the text is taken already, or there is no room. */
bool zl_vocab_put(struct zl_vocab *v, uint32_t id, const char *s, size_t len, uint32_t flags);
int32_t zl_vocab_find(const struct zl_vocab *v, const char *s, size_t len); /* -1: none */
void zl_vocab_free(struct zl_vocab *v);

/* ---- bpe.c: merging ---- */
struct zl_merge {
    uint64_t pair; /* left id << 32 | right id */
    uint32_t rank; /* lower merges first; UINT32_MAX: an empty slot */
    int32_t id;    /* what the two become */
};

struct zl_merges {
    struct zl_merge *slot;
    uint32_t slots; /* a power of two */
};

struct zl_bpe { /* scratch of one call */
    int32_t *sym;
    uint32_t *next, *prev, *rank;
    int32_t *into;
    size_t capacity;
    uint64_t *heap;
    size_t heap_n, heap_capacity;
};

int zl_merges_reserve(struct zl_merges *m, uint32_t n, struct zl_error *err);
void zl_merges_put(struct zl_merges *m, int32_t left, int32_t right, uint32_t rank,
                   int32_t id); /* the last rank wins */
/* Room for n symbols in s->sym; then merge them in place: returns how many are left, or a negative
 * code. */
int zl_bpe_reserve(struct zl_bpe *s, size_t n, struct zl_error *err);
int64_t zl_bpe_merge(const struct zl_merges *m, struct zl_bpe *s, size_t n, struct zl_error *err);
void zl_bpe_free(struct zl_bpe *s);

/* ---- regex.c: PCRE2 with the meaning that the reference's engine (Oniguruma, Unicode) gives to
 * patterns ---- */
#define ZL_REGEX_LETTER_SYMBOLS /* symbols that are alphabetic: circled and squared letters */     \
    "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}"
int zl_regex_compile(const char *pattern, size_t len, pcre2_code **out, struct zl_error *err);
/* The next match in s[at..n): 1 found, 0 none, negative error. Empty matches move on by a
 * character. */
int zl_regex_next(const pcre2_code *re, pcre2_match_data *md, const char *s, size_t n, size_t at,
                  size_t *begin, size_t *end, struct zl_error *err);

/* ---- normalize.c ---- */
enum zl_normalizer_kind {
    ZL_NORM_NFC,
    ZL_NORM_NFD,
    ZL_NORM_NFKC,
    ZL_NORM_NFKD,
    ZL_NORM_PREPEND,
    ZL_NORM_REPLACE
};

struct zl_replace {
    char *from, *to;
    size_t from_len, to_len;
};

struct zl_normalizer {
    enum zl_normalizer_kind kind;
    struct zl_replace text; /* REPLACE: from is empty with re; PREPEND: to alone */
    pcre2_code *re;
};

/* Offset of the first byte that is no UTF-8, or n. */
size_t zl_utf8_check(const char *s, size_t n);
/* Length of the character at s[0..n): 1..4; 0: cut off but good so far; negative: minus the length
 * of the bad run, which becomes one U+FFFD (maximal subparts, as in Unicode 3.9 and Rust's
 * from_utf8_lossy). */
int zl_utf8_step(const char *s, size_t n);
bool zl_char_is_space(int32_t c); /* White_Space */
bool zl_char_is_word(int32_t c);  /* \w of the reference */

/* ---- pretokenize.c ---- */
enum zl_split {
    ZL_SPLIT_ISOLATED,
    ZL_SPLIT_REMOVED,
    ZL_SPLIT_PREVIOUS,
    ZL_SPLIT_NEXT,
    ZL_SPLIT_CONTIGUOUS
};
enum zl_prepend { ZL_PREPEND_NEVER, ZL_PREPEND_FIRST, ZL_PREPEND_ALWAYS };

struct zl_pretokenizer {
    pcre2_code *re; /* cut by this; NULL: by the literal, or not at all */
    char *literal;  /* Split by a string; Metaspace's replacement */
    size_t literal_len;
    enum zl_split how;
    bool invert;
    bool cuts;      /* false: only changes the text */
    bool metaspace; /* blanks become `literal`, which may be put in front */
    bool add_space; /* ByteLevel with add_prefix_space */
    enum zl_prepend prepend;
};

/* ---- detokenize.c ---- */
enum zl_decoder_kind { ZL_DECODE_SPACES, ZL_DECODE_BYTE_LEVEL, ZL_DECODE_PIECES };

struct zl_decoder {
    enum zl_decoder_kind kind; /* SPACES: no decoder, tokens joined by blanks */
    struct zl_replace replace[ZL_TOK_MAX_STAGES];
    int n_replace;
    bool byte_fallback;
    unsigned seen; /* which stages the reader met, to hold them to their order */
    char *strip;   /* one character, taken up to strip_n times from the front of the whole */
    size_t strip_len;
    uint64_t strip_n;
    char *bare; /* Metaspace: the first token loses this character wherever it stands; or NULL */
    size_t bare_len;
};

struct zl_tokenizer {
    char *source; /* path, for messages */
    struct zl_vocab vocab;
    struct zl_merges merges;
    struct zl_normalizer normalizer[ZL_TOK_MAX_STAGES];
    int n_normalizers;
    struct zl_pretokenizer pre[ZL_TOK_MAX_STAGES];
    int n_pre;
    bool byte_level, byte_fallback, fuse_unk, ignore_merges;
    int32_t unk;            /* -1: none */
    int32_t byte_id[256];   /* byte-level: the symbol of a byte; byte fallback: <0xNN>; -1: none */
    int32_t ascii_id[128];  /* the symbol of a character, where words are not bytes; -1: none */
    bool cuts_at_marks;     /* words may be merged in parts, each from a U+2581 on, but ... */
    bool mark_follows[256]; /* ... not behind a character that ends in this byte */
    char byte_char[256][4]; /* byte-level: the byte's character, NUL-terminated (at most 2 bytes) */
    struct zl_added *raw, *normalized; /* added tokens by what they match */
    struct zl_ids before, after;       /* what the template adds around a text */
    struct zl_decoder decoder;
    struct zl_piece
        *decoded; /* [vocab.n]: what an id decodes to before joining; flags: byte value + 1, or 0 */
    struct zl_text decoded_blob;
    int32_t bos, eos;
    struct zl_ids ends; /* other ids that end a turn */
    char *chat_template;
};

/* ---- encode.c ---- */
struct zl_encoder { /* what one call of zl_tokenizer_encode carries */
    const struct zl_tokenizer *t;
    struct zl_ids *ids;
    struct zl_error *err;
    unsigned flags;
    pcre2_match_data *md;
    struct zl_bpe bpe;
    struct zl_text mapped;
};
int zl_encode_word(struct zl_encoder *e, const char *s,
                   size_t n); /* the ids of one word, merged and appended */
int zl_pretokenize(struct zl_encoder *e, const char *s, size_t n,
                   bool first); /* calls zl_encode_word for each word */
/* Normalize s[0..n) into one of the two buffers; *out, *out_n may also be the input itself. */
int zl_normalize(const struct zl_tokenizer *t, const char *s, size_t n, struct zl_text buffer[2],
                 pcre2_match_data *md, const char **out, size_t *out_n, struct zl_error *err);

/* ---- added.c ---- */
struct zl_added_token {
    int32_t id;
    const char *s; /* owned once put */
    size_t len;
    bool special, lstrip, rstrip, single_word, normalized;
};
struct zl_added {
    struct zl_added_token *token; /* sorted by text */
    size_t n;
    bool first[256]; /* bytes that a token starts with */
};
/* Cut s[0..n) at the tokens: text(ctx, piece) for the rest, in order, and token ids appended to
 * ids. */
typedef int zl_added_text_fn(void *ctx, const char *s, size_t n, bool first);
int zl_added_split(const struct zl_added *a, const char *s, size_t n, bool first, bool plain,
                   struct zl_ids *ids, zl_added_text_fn *text, void *ctx, struct zl_error *err);
int zl_added_put(struct zl_added *a, const struct zl_added_token *token,
                 struct zl_error *err); /* copies the text */
int zl_added_sort(struct zl_added *a, const char *source, struct zl_error *err);
void zl_added_free(struct zl_added *a);

/* ---- shared by the readers ---- */
int zl_ids_add(struct zl_ids *ids, int32_t id, struct zl_error *err);
struct zl_tokenizer *zl_tok_new(const char *source, struct zl_error *err);
int zl_tok_add_token(struct zl_tokenizer *t, const struct zl_added_token *token,
                     struct zl_error *err);
/* Merge number i of the file, its texts and its rank; `joined` is the caller's to free. */
int zl_tok_add_merge(struct zl_tokenizer *t, uint64_t i, uint32_t rank, const char *left,
                     size_t left_len, const char *right, size_t right_len, struct zl_text *joined,
                     struct zl_error *err);
int zl_tok_byte_level_stage(struct zl_tokenizer *t, bool add_space, bool use_regex,
                            struct zl_error *err);
int zl_tok_regex_stage(struct zl_tokenizer *t, const char *pattern, size_t len, enum zl_split how,
                       bool invert, struct zl_error *err);
int zl_tok_read_json(const char *path, struct zl_tokenizer **out,
                     struct zl_error *err); /* tokenizer.json alone */
/* Where a word of characters may be cut without changing how it merges: see encode.c. */
void zl_tok_find_cuts(struct zl_tokenizer *t);
/* Byte tables, decoded texts, order of added tokens, ends of turns; checks what only the whole can
 * show. */
int zl_tok_finish(struct zl_tokenizer *t, struct zl_error *err);
int zl_decoder_finish(struct zl_tokenizer *t, struct zl_error *err);
/* Replace every `from` of s[0..n) by `to`. */
int zl_text_add_replaced(struct zl_text *out, const char *s, size_t n, const struct zl_replace *r,
                         struct zl_error *err);
char *zl_tok_strdup(const char *s, size_t n, struct zl_error *err);
int zl_byte_from_char(int32_t c);                     /* byte-level alphabet: its byte, or -1 */
size_t zl_byte_to_char(unsigned char b, char out[4]); /* the character of a byte in UTF-8 */
int zl_byte_token(const char *s, size_t n);           /* "<0x41>" -> 0x41, else -1 */

/* As zl_tok_regex_stage, for a stage that works with a literal: the fields of *like, and the
 * literal copied. */
int zl_tok_literal_stage(struct zl_tokenizer *t, const struct zl_pretokenizer *like,
                         const char *literal, size_t len, struct zl_error *err);

/* How many bytes of the (normalized) text an id stands for; 0 for an unknown token. */
size_t zl_tok_covers(const struct zl_tokenizer *t, int32_t id);

#endif
