/*
 * Writing a random model: see random_model.h. The file, little-endian, as the GGUF specification has it:
 *
 *     "GGUF", u32 version 3, u64 tensors, u64 keys
 *     keys      string name, u32 type, value; a string is u64 length and bytes; an array is u32 type, u64 count, elements
 *     tensors   string name, u32 dimensions, u64 each (innermost first), u32 type, u64 offset from the data's begin
 *     data      each tensor at a multiple of 32
 *
 * The number of keys is put in at the end, when it is known.
 */
#include "config.h"

#include "bench/random_model.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "bench/blocks.h"
#include "format/gguf.h"
#include "model/arch.h"
#include "model/model.h"

enum { U32 = 4, I32 = 5, F32 = 6, BOOL = 7, STRING = 8, ARRAY = 9 };
enum { NORMAL = 1, CONTROL = 3, UNUSED = 5 }; /* kinds of tokens */
enum { ALIGN = 32, KEYS_AT = 16, PIECE = 1 << 20, TENSOR_NAME = 80 };
#define KEY(name) "tokenizer.ggml." name

struct writer {
    FILE *f; /* its own error flag is looked at when all is written */
    uint64_t n_keys, seed;
    const struct zl_gguf *source; /* of the tokenizer, or NULL */
    const struct zl_shape *shape;
    struct zl_error *err;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
    fwrite(bytes, 1, n, w->f);
}

static void put_int(struct writer *w, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        putc((int)(v >> 8 * i & 0xff), w->f);
}

static void put_text(struct writer *w, const char *s, size_t n)
{
    put_int(w, n, 8);
    put(w, s, n);
}

static void put_key(struct writer *w, const char *name, uint32_t type)
{
    put_text(w, name, strlen(name));
    put_int(w, type, 4);
    w->n_keys++;
}

static void put_array(struct writer *w, const char *name, uint32_t type, uint64_t n)
{
    put_key(w, name, ARRAY);
    put_int(w, type, 4);
    put_int(w, n, 8);
}

static void put_u32(struct writer *w, const char *name, uint64_t v)
{
    put_key(w, name, U32);
    put_int(w, v, 4);
}

static void put_float(struct writer *w, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    put_int(w, bits, 4);
}

static void put_f32(struct writer *w, const char *name, double v)
{
    put_key(w, name, F32);
    put_float(w, (float)v);
}

static void put_string(struct writer *w, const char *name, const char *s)
{
    put_key(w, name, STRING);
    put_text(w, s, strlen(s));
}

static void put_shape(struct writer *w)
{
    const struct zl_shape *s = w->shape;
    put_string(w, "general.architecture", "llama");
    put_string(w, "general.name", s->name);
    put_u32(w, "general.quantization_version", 2);
    put_u32(w, "llama.context_length", s->context);
    put_u32(w, "llama.embedding_length", s->d);
    put_u32(w, "llama.block_count", s->layers);
    put_u32(w, "llama.feed_forward_length", s->ffn);
    put_u32(w, "llama.rope.dimension_count", s->head_dim);
    put_u32(w, "llama.attention.head_count", s->heads);
    put_u32(w, "llama.attention.head_count_kv", s->kv_heads);
    put_u32(w, "llama.attention.key_length", s->head_dim);
    put_u32(w, "llama.attention.value_length", s->head_dim);
    put_f32(w, "llama.attention.layer_norm_rms_epsilon", s->norm_eps);
    put_f32(w, "llama.rope.freq_base", s->rope_theta);
    put_u32(w, "llama.vocab_size", s->vocab);
}

/* ---- tokenizers ---- */
static void put_unused(struct writer *w, uint64_t from)
{
    char name[40];
    for (uint64_t i = from; i < w->shape->vocab; i++) {
        snprintf(name, sizeof name, "<unused%llu>", (unsigned long long)i);
        put_text(w, name, strlen(name));
    }
}

static void put_kinds(struct writer *w, const int32_t *kinds, uint64_t n, uint64_t n_control)
{
    put_array(w, KEY("token_type"), I32, w->shape->vocab);
    for (uint64_t i = 0; i < w->shape->vocab; i++)
        put_int(w, (uint64_t)(i >= n ? UNUSED : kinds ? kinds[i] : i >= n - n_control ? CONTROL : NORMAL), 4);
}

/* GPT-2's way of writing a byte: itself where it prints, else a letter from U+0100 on. */
static void put_byte_token(struct writer *w, unsigned b)
{
    unsigned code = b, n = 0;
    if (!((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174)) {
        for (unsigned i = 0; i < b; i++)
            n += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174);
        code = 256 + n;
    }
    const char text[2] = {(char)(code < 128 ? code : 0xC0 | code >> 6), (char)(0x80 | (code & 63))};
    put_text(w, text, code < 128 ? 1 : 2);
}

/* Bytes, one merge because some readers want any, and marks. */
static void put_byte_tokenizer(struct writer *w)
{
    static const char *const marks[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>"};
    const uint64_t n_marks = sizeof marks / sizeof marks[0], n = 257 + n_marks;
    put_string(w, KEY("model"), "gpt2");
    put_string(w, KEY("pre"), "gpt-2");
    put_array(w, KEY("tokens"), STRING, w->shape->vocab);
    for (unsigned b = 0; b < 256; b++)
        put_byte_token(w, b);
    put_text(w, "\xc4\xa0t", 3);
    for (uint64_t i = 0; i < n_marks; i++)
        put_text(w, marks[i], strlen(marks[i]));
    put_unused(w, n);
    put_kinds(w, NULL, n, n_marks);
    put_array(w, KEY("merges"), STRING, 1);
    put_text(w, "\xc4\xa0 t", 4);
    put_u32(w, KEY("bos_token_id"), 257);
    put_u32(w, KEY("eos_token_id"), 257);
    put_key(w, KEY("add_bos_token"), BOOL), put_int(w, 0, 1);
}

static int copy_tokens(struct writer *w)
{
    const struct zl_gguf_str *s = NULL;
    const int32_t *kinds = NULL;
    const float *scores = NULL;
    uint64_t n = 0, n_kinds = 0, n_scores = 0, vocab = w->shape->vocab;
    if (zl_gguf_strings(w->source, KEY("tokens"), &s, &n, w->err) < 0 ||
        zl_gguf_i32s(w->source, KEY("token_type"), &kinds, &n_kinds, w->err) < 0 ||
        zl_gguf_f32s(w->source, KEY("scores"), &scores, &n_scores, w->err) < 0)
        return ZL_EINPUT;
    if (n == 0 || n > vocab || (kinds && n_kinds != n) || (scores && n_scores != n))
        return zl_fail(w->err, ZL_EINPUT, "%s: the tokenizer has %llu tokens, expected 1 to %u", zl_gguf_path(w->source),
                       (unsigned long long)n, w->shape->vocab);
    put_array(w, KEY("tokens"), STRING, vocab);
    for (uint64_t i = 0; i < n; i++)
        put_text(w, s[i].s, s[i].len);
    put_unused(w, n);
    put_kinds(w, kinds, n, 0);
    if (!scores)
        return 0;
    put_array(w, KEY("scores"), F32, vocab);
    for (uint64_t i = 0; i < vocab; i++)
        put_float(w, i < n ? scores[i] : -1e6f);
    return 0;
}

static int copy_tokenizer(struct writer *w)
{
    static const char *const texts[] = {KEY("model"), KEY("pre"), "tokenizer.chat_template"};
    static const char *const ids[] = {KEY("bos_token_id"), KEY("eos_token_id"), KEY("unknown_token_id"),
                                      KEY("padding_token_id")};
    static const char *const flags[] = {KEY("add_bos_token"), KEY("add_eos_token"), KEY("add_space_prefix")};
    const struct zl_gguf_str *merges = NULL;
    uint64_t n = 0;
    int rc = 0;
    for (size_t i = 0; rc >= 0 && i < sizeof texts / sizeof texts[0]; i++) {
        const char *s;
        size_t len;
        if ((rc = zl_gguf_string(w->source, texts[i], &s, &len, w->err)) == 0)
            put_key(w, texts[i], STRING), put_text(w, s, len);
    }
    for (size_t i = 0; rc >= 0 && i < sizeof ids / sizeof ids[0]; i++) {
        uint64_t id;
        if ((rc = zl_gguf_u64(w->source, ids[i], &id, w->err)) == 0)
            put_u32(w, ids[i], id);
    }
    for (size_t i = 0; rc >= 0 && i < sizeof flags / sizeof flags[0]; i++) {
        bool on;
        if ((rc = zl_gguf_bool(w->source, flags[i], &on, w->err)) == 0)
            put_key(w, flags[i], BOOL), put_int(w, on, 1);
    }
    if (rc < 0 || (rc = zl_gguf_strings(w->source, KEY("merges"), &merges, &n, w->err)) < 0)
        return rc;
    if (rc == 0) {
        put_array(w, KEY("merges"), STRING, n);
        for (uint64_t i = 0; i < n; i++)
            put_text(w, merges[i].s, merges[i].len);
    }
    return copy_tokens(w);
}

/* ---- tensors ---- */
struct entry {
    char name[TENSOR_NAME];
    enum zl_type type;
    uint64_t out, in, bytes, offset; /* in 0: a vector of ones */
};

static enum zl_type fitting(enum zl_type type, uint64_t in)
{
    if (in % zl_type_info[type].block == 0)
        return type;
    return type == ZL_Q4_K ? ZL_Q5_0 : type == ZL_Q5_K ? ZL_Q5_1 : ZL_Q8_0;
}

static enum zl_type head_type(enum zl_type type, uint64_t in)
{
    bool low = zl_type_info[type].block > 1 && type != ZL_Q8_0;
    return fitting(low ? ZL_Q6_K : type, in);
}

static void add(struct entry *e, uint64_t *n, uint64_t *end, enum zl_type type, uint64_t out, uint64_t in)
{
    struct entry *at = &e[(*n)++];
    at->type = in ? type : ZL_F32;
    at->out = out;
    at->in = in;
    at->bytes = out * (in ? in : 1) / zl_type_info[at->type].block * zl_type_info[at->type].block_bytes;
    at->offset = *end;
    *end = (at->offset + at->bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* All tensors in the file's order; e has room for them. Returns the data's size. */
static uint64_t list(const struct zl_config *c, enum zl_type type, struct entry *e, uint64_t *n)
{
    uint64_t end = 0;
    *n = 0;
    snprintf(e[*n].name, TENSOR_NAME, "%s", c->arch->gguf_embed);
    add(e, n, &end, c->tied ? head_type(type, c->d) : fitting(type, c->d), c->vocab, c->d);
    for (uint32_t i = 0; i < c->layers; i++)
        for (enum zl_role role = 0; role < ZL_B_Q; role++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(e[*n].name, TENSOR_NAME, c->arch->roles[role].gguf, i);
#pragma GCC diagnostic pop
            uint64_t in = role < ZL_LINEARS ? zl_linear_in(c, role) : 0;
            add(e, n, &end, fitting(type, in ? in : 1), zl_linear_out(c, role), in);
        }
    snprintf(e[*n].name, TENSOR_NAME, "%s", c->arch->gguf_norm);
    add(e, n, &end, ZL_F32, c->d, 0);
    if (!c->tied) {
        snprintf(e[*n].name, TENSOR_NAME, "%s", c->arch->gguf_head);
        add(e, n, &end, head_type(type, c->d), c->vocab, c->d);
    }
    return end;
}

static void put_entry(struct writer *w, const struct entry *e)
{
    put_text(w, e->name, strlen(e->name));
    put_int(w, e->in ? 2 : 1, 4);
    if (e->in)
        put_int(w, e->in, 8);
    put_int(w, e->out, 8);
    put_int(w, zl_type_info[e->type].gguf, 4);
    put_int(w, e->offset, 8);
}

static void put_data(struct writer *w, const struct entry *e, uint8_t *piece)
{
    const uint64_t size = zl_type_info[e->type].block_bytes, most = PIECE / size;
    for (uint64_t left = e->bytes / size, n; left; left -= n) {
        n = left < most ? left : most;
        if (e->in)
            zl_blocks_random(e->type, piece, n, &w->seed);
        else
            for (uint64_t i = 0; i < n; i++)
                memcpy(piece + i * sizeof(float), &(float){1}, sizeof(float));
        put(w, piece, (size_t)(n * size));
    }
    for (uint64_t at = e->bytes; at % ALIGN; at++)
        putc(0, w->f);
}

static int write_all(struct writer *w, const struct entry *e, uint64_t n)
{
    uint8_t *piece = malloc(PIECE);
    if (!piece)
        return zl_fail(w->err, ZL_EMEMORY, "no memory for a piece of a file");
    put(w, "GGUF", 4);
    put_int(w, 3, 4);
    put_int(w, n, 8);
    put_int(w, 0, 8);
    put_shape(w);
    int rc = w->source ? copy_tokenizer(w) : (put_byte_tokenizer(w), 0);
    for (uint64_t i = 0; !rc && i < n; i++)
        put_entry(w, &e[i]);
    for (long at = ftell(w->f); !rc && at % ALIGN; at++)
        putc(0, w->f);
    for (uint64_t i = 0; !rc && i < n && !ferror(w->f); i++)
        put_data(w, &e[i], piece);
    free(piece);
    if (!rc && fseek(w->f, KEYS_AT, SEEK_SET) == 0)
        put_int(w, w->n_keys, 8);
    return rc;
}

/* Ask before the disk is full. */
static int check_room(const char *path, uint64_t bytes, struct zl_error *err)
{
    struct statvfs st;
    char *folder = zl_path_folder(path);
    int rc = folder ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc && statvfs(folder, &st) == 0 && st.f_bavail < bytes / st.f_frsize + 1)
        rc = zl_fail(err, ZL_ESYSTEM, "%s: %llu MiB are needed, the file system has %llu", path,
                     (unsigned long long)(bytes >> 20), (unsigned long long)(st.f_bavail * st.f_frsize >> 20));
    free(folder);
    return rc;
}

int zl_random_model_write(const char *path, const struct zl_shape *shape, enum zl_type type, const char *tokenizer,
                          struct zl_error *err)
{
    const struct zl_config c = zl_shape_config(shape);
    struct zl_gguf *source = NULL;
    struct writer w = {.seed = 1, .shape = shape, .err = err};
    struct entry *e = calloc((size_t)c.layers * ZL_ROLES + 3, sizeof *e);
    uint64_t n = 0;
    int rc = e ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc)
        rc = check_room(path, list(&c, type, e, &n) + (UINT64_C(4) << 20), err);
    if (!rc && tokenizer)
        rc = zl_gguf_open(tokenizer, &source, err);
    w.source = source;
    if (!rc && !(w.f = fopen(path, "wb")))
        rc = zl_fail_errno(err, ZL_ESYSTEM, "%s", path);
    if (w.f) {
        rc = write_all(&w, e, n);
        bool bad = ferror(w.f) != 0;
        bad |= fclose(w.f) != 0;
        if (!rc && bad)
            rc = zl_fail_errno(err, ZL_ESYSTEM, "%s: it cannot be written", path);
        if (rc)
            unlink(path);
    }
    zl_gguf_close(source);
    free(e);
    return rc;
}
