/* Reading GGUF: what must load, what must be refused, and that hostile headers cost no memory. */
#include "tests/unit/format_files.h"

#include <math.h>

#include "format/gguf.h"
#include "tests/unit/gguf_bytes.h"

static int open_bytes(struct bytes *b, struct zl_gguf **g, struct zl_error *err)
{
    *err = (struct zl_error){0};
    *g = NULL;
    int rc = zl_gguf_open(files_write("x.gguf", b->p, b->n), g, err);
    bytes_free(b);
    return rc;
}

#define EXPECT_REJECT(b, ...)                                                                      \
    do {                                                                                           \
        struct zl_gguf *g_;                                                                        \
        struct zl_error err_;                                                                      \
        int rc_ = open_bytes(b, &g_, &err_);                                                       \
        ASSERT_REJECTED(rc_, &err_, "x.gguf", __VA_ARGS__);                                        \
    } while (0)

/* What the code under test asks of the allocator; see -Wl,--wrap in format.mk. */
static uint64_t allocated_bytes;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_reallocarray(void *p, size_t n, size_t size);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_reallocarray(void *p, size_t n, size_t size);

void *__wrap_malloc(size_t n)
{
    allocated_bytes += n;
    return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    allocated_bytes += n * size;
    return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    allocated_bytes += n;
    return __real_realloc(p, n);
}

void *__wrap_reallocarray(void *p, size_t n, size_t size)
{
    uint64_t bytes;
    allocated_bytes += __builtin_mul_overflow(n, size, &bytes) ? UINT64_MAX / 2 : bytes;
    return __real_reallocarray(p, n, size);
}

#define EXPECT_CHEAP_REJECT(b, ...)                                                                \
    do {                                                                                           \
        struct zl_gguf *g_;                                                                        \
        struct zl_error err_ = {0};                                                                \
        const char *path_ = files_write("x.gguf", (b)->p, (b)->n);                                 \
        bytes_free(b);                                                                             \
        allocated_bytes = 0;                                                                       \
        int rc_ = zl_gguf_open(path_, &g_, &err_);                                                 \
        uint64_t used_ = allocated_bytes;                                                          \
        ASSERT_REJECTED(rc_, &err_, "x.gguf", __VA_ARGS__);                                        \
        if (used_ == 0 || used_ > 1 << 20)                                                         \
            fail_msg("asked for %llu bytes, bound %d", (unsigned long long)used_, 1 << 20);        \
    } while (0)

static void a_small_file_loads(void **state)
{
    (void)state;
    for (uint32_t version = 2; version <= 3; version++) {
        struct bytes b = {0};
        struct zl_gguf *g;
        struct zl_error err;
        put_small(&b, version);
        assert_accepted(open_bytes(&b, &g, &err), &err);
        const struct zl_tensors *s = zl_gguf_tensors(g);
        assert_int_equal(zl_tensors_count(s), 2);
        assert_string_equal(zl_tensors_at(s, 0)->name, "n");
        const struct zl_named_tensor *w = zl_tensors_find(s, "w");
        assert_int_equal(w->t.type, ZL_Q8_0);
        assert_int_equal(w->t.n_dims, 2);
        assert_int_equal(w->t.shape[0], 3);
        assert_int_equal(w->t.shape[1], 64);
        assert_int_equal(w->t.bytes, 204);
        float four;
        memcpy(&four, (const char *)zl_tensors_find(s, "n")->t.data + 16, 4);
        assert_true(four == 4);
        assert_string_equal(zl_gguf_path(g), files_path("x.gguf"));
        zl_gguf_close(g);
    }
}

static void values_are_read_by_their_type(void **state)
{
    (void)state;
    struct bytes b = {0};
    struct zl_gguf *g;
    struct zl_error err;
    put_small(&b, 3);
    assert_accepted(open_bytes(&b, &g, &err), &err);
    uint64_t u = 7, n;
    double x = 7;
    bool yes = false;
    const char *text;
    size_t len;
    const struct zl_gguf_str *texts;
    const float *scores;
    const int32_t *types;
    assert_int_equal(zl_gguf_u64(g, "u8", &u, &err), 0);
    assert_int_equal(u, 255);
    assert_int_equal(zl_gguf_u64(g, "u64", &u, &err), 0);
    assert_true(u == UINT64_MAX);
    assert_int_equal(zl_gguf_u64(g, "absent", &u, &err), 1);
    assert_true(u == UINT64_MAX);
    assert_int_equal(zl_gguf_f64(g, "f32", &x, &err), 0);
    assert_true(x == 0.5);
    assert_int_equal(zl_gguf_f64(g, "f64", &x, &err), 0);
    assert_true(x == 1e-5);
    assert_int_equal(zl_gguf_bool(g, "yes", &yes, &err), 0);
    assert_true(yes);
    assert_int_equal(zl_gguf_string(g, "general.architecture", &text, &len, &err), 0);
    assert_int_equal(len, 5);
    assert_memory_equal(text, "llama", 5);
    assert_int_equal(zl_gguf_strings(g, "texts", &texts, &n, &err), 0);
    assert_int_equal(n, 3);
    assert_int_equal(texts[1].len, 0);
    assert_memory_equal(texts[2].s, "bc", 2);
    assert_int_equal(zl_gguf_f32s(g, "scores", &scores, &n, &err), 0);
    assert_true(n == 2 && scores[0] == 1.5f && scores[1] == -2);
    assert_int_equal(zl_gguf_i32s(g, "types", &types, &n, &err), 0);
    assert_true(n == 2 && types[0] == 1 && types[1] == -2);
    assert_int_equal(err.code, 0);

    int rc = zl_gguf_u64(g, "i16", &u, &err);
    ASSERT_REJECTED(rc, &err, "\"i16\"", "-2", ">= 0");
    err = (struct zl_error){0};
    rc = zl_gguf_bool(g, "odd", &yes, &err);
    ASSERT_REJECTED(rc, &err, "\"odd\"", "2");
    zl_gguf_close(g);
}

static void wrong_types_are_named(void **state)
{
    (void)state;
    struct bytes b = {0};
    struct zl_gguf *g;
    struct zl_error err;
    put_header(&b, 3, 0, 4);
    put_key(&b, "tokenizer.ggml.scores", ARRAY), put_u32(&b, U8), put_u64(&b, 4), put_u32(&b, 0);
    put_key(&b, "tokenizer.ggml.token_type", ARRAY), put_u32(&b, STRING), put_u64(&b, 1),
        put_string(&b, "1");
    put_key(&b, "big", ARRAY), put_u32(&b, U32), put_u64(&b, 2), put_u32(&b, 1),
        put_u32(&b, 1u << 31);
    put_key(&b, "n", U32), put_u32(&b, 5);
    assert_accepted(open_bytes(&b, &g, &err), &err);
    const float *scores;
    const int32_t *types;
    const struct zl_gguf_str *texts;
    uint64_t n, u;
    double x;
    bool yes;
    const char *text;
    size_t len;
    int rc = zl_gguf_f32s(g, "tokenizer.ggml.scores", &scores, &n, &err);
    ASSERT_REJECTED(rc, &err, "tokenizer.ggml.scores", "array of uint8", "an array of float32");
    err = (struct zl_error){0};
    rc = zl_gguf_i32s(g, "tokenizer.ggml.token_type", &types, &n, &err);
    ASSERT_REJECTED(rc, &err, "tokenizer.ggml.token_type", "array of text", "an array of int32");
    err = (struct zl_error){0};
    rc = zl_gguf_i32s(g, "big", &types, &n, &err);
    ASSERT_REJECTED(rc, &err, "element 1", "2147483648");
    err = (struct zl_error){0};
    rc = zl_gguf_strings(g, "n", &texts, &n, &err);
    ASSERT_REJECTED(rc, &err, "is uint32", "array of text");
    err = (struct zl_error){0};
    rc = zl_gguf_u64(g, "big", &u, &err);
    ASSERT_REJECTED(rc, &err, "array of uint32", "whole number");
    err = (struct zl_error){0};
    rc = zl_gguf_f64(g, "n", &x, &err);
    ASSERT_REJECTED(rc, &err, "uint32", "float");
    err = (struct zl_error){0};
    rc = zl_gguf_bool(g, "n", &yes, &err);
    ASSERT_REJECTED(rc, &err, "uint32", "bool");
    err = (struct zl_error){0};
    rc = zl_gguf_string(g, "n", &text, &len, &err);
    ASSERT_REJECTED(rc, &err, "uint32", "text");
    zl_gguf_close(g);
}

static void lengths_past_the_end_cost_no_memory(void **state)
{
    (void)state;
    static const uint64_t huge[] = {0xFFFFFFFFFFFF, 1ull << 62, UINT64_MAX, 4096};
    for (size_t i = 0; i < sizeof huge / sizeof *huge; i++) {
        struct bytes b = {0};
        put_header(&b, 3, 0, 1), put_u64(&b, huge[i]); /* the 32-byte bomb: a key's length */
        EXPECT_CHEAP_REJECT(&b, "");
        put_header(&b, 3, 0, 1), put_u64(&b, huge[i]), put_zeros(&b, 32);
        EXPECT_CHEAP_REJECT(&b, "byte 32", "a key");
        put_header(&b, 3, 0, 1), put_key(&b, "k", STRING), put_u64(&b, huge[i]), put_zeros(&b, 32);
        EXPECT_CHEAP_REJECT(&b, "a text value");
        for (uint32_t type = 0; type <= F64; type++) {
            put_header(&b, 3, 0, 1), put_key(&b, "k", ARRAY), put_u32(&b, type);
            put_u64(&b, huge[i]), put_zeros(&b, 64);
            EXPECT_CHEAP_REJECT(&b, "\"k\"", "bytes left");
        }
        put_header(&b, 3, 0, 1), put_key(&b, "k", ARRAY), put_u32(&b, STRING), put_u64(&b, 2);
        put_string(&b, "a"), put_u64(&b, huge[i]);
        EXPECT_CHEAP_REJECT(&b, "a text in an array");
        put_header(&b, 3, 0, huge[i]), put_zeros(&b, 64);
        EXPECT_CHEAP_REJECT(&b, "keys do not fit");
        put_header(&b, 3, huge[i], 0), put_zeros(&b, 64);
        EXPECT_CHEAP_REJECT(&b, "tensors", "do not fit");
        put_header(&b, 3, 1, 0), put_u64(&b, huge[i]), put_zeros(&b, 64);
        EXPECT_CHEAP_REJECT(&b, "a tensor's name");
    }
}

static void arrays_nest_only_so_deep(void **state)
{
    (void)state;
    struct bytes b = {0};
    put_header(&b, 3, 0, 1), put_key(&b, "k", ARRAY);
    for (int i = 0; i < 100000; i++)
        put_u32(&b, ARRAY), put_u64(&b, 1);
    EXPECT_CHEAP_REJECT(&b, "\"k\"", "nested deeper than 4");
}

static void bad_names_and_types_are_rejected(void **state)
{
    (void)state;
    struct bytes b = {0};
    put_header(&b, 3, 0, 1), put_key(&b, "", U8), put_zeros(&b, 32);
    EXPECT_REJECT(&b, "a key of 0 bytes");
    put_header(&b, 3, 0, 1), put_u64(&b, 2), put(&b, "a\0", 2), put_u32(&b, U8), put_zeros(&b, 32);
    EXPECT_REJECT(&b, "without a NUL");
    put_header(&b, 3, 0, 1), put_u64(&b, 70000), put_zeros(&b, 80000);
    EXPECT_REJECT(&b, "a key of 70000 bytes");
    put_header(&b, 3, 0, 1), put_key(&b, "k", 13), put_zeros(&b, 32);
    EXPECT_REJECT(&b, "\"k\"", "value type 13");
    put_header(&b, 3, 0, 1), put_key(&b, "k", ARRAY), put_u32(&b, 0xFFFFFFFF), put_zeros(&b, 32);
    EXPECT_REJECT(&b, "\"k\"", "value type 4294967295");
    put_header(&b, 3, 0, 2);
    for (int i = 0; i < 2; i++)
        put_key(&b, "k", U8), put(&b, "", 1);
    put_zeros(&b, 32);
    EXPECT_REJECT(&b, "duplicate key \"k\"");
    put_text(&b, "GGUF"), put_u32(&b, 3);
    EXPECT_REJECT(&b, "8 bytes long");
    put_text(&b, "GGML"), put_zeros(&b, 64);
    EXPECT_REJECT(&b, "not a GGUF file");
}

static void versions_other_than_2_and_3_are_rejected(void **state)
{
    (void)state;
    static const uint32_t versions[] = {0, 1, 4, 0x03000000, 0x02000000, 0xFFFFFFFF};
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        struct bytes b = {0};
        put_small(&b, versions[i]);
        EXPECT_REJECT(&b, "version", "expected 2 or 3",
                      versions[i] == 0x03000000 ? "big-endian" : "");
    }
}

static int one_tensor(uint32_t n_dims, const uint64_t *dims, uint32_t type, uint64_t offset,
                      size_t data, struct zl_gguf **g, struct zl_error *err)
{
    struct bytes b = {0};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "w", n_dims, dims, type, offset);
    put_padding(&b, 32);
    put_zeros(&b, data);
    return open_bytes(&b, g, err);
}

static void dimensions_are_checked(void **state)
{
    (void)state;
    struct zl_gguf *g;
    struct zl_error err;
    uint64_t ones[16];
    for (int i = 0; i < 16; i++)
        ones[i] = 1;
    static const uint32_t counts[] = {5, 9, 0xFFFFFFFF};
    for (size_t i = 0; i < 3; i++) {
        int rc = one_tensor(counts[i], ones, 0, 0, 256, &g, &err);
        ASSERT_REJECTED(rc, &err, "\"w\"", "dimensions, expected at most 4");
    }
    static const struct {
        uint64_t dims[4];
        uint32_t n, type;
        const char *say; /* NULL: loads */
    } cases[] = {
        {{1152, (1ull << 42) + 1}, 2, 0, "past"},
        {{1152, (1ull << 42) + 1}, 2, 12, "multiple of q4_K's 256"},
        {{1ull << 62, 4}, 2, 0, "63 bits"},
        {{1ull << 32, 1ull << 32, 0}, 3, 0, "63 bits"},
        {{0, 1ull << 32, 1ull << 32}, 3, 0, "63 bits"},
        {{UINT64_MAX}, 1, 0, "63 bits"},
        {{1ull << 61}, 1, 0, "past"},
        {{(1ull << 62) + 1}, 1, 28, "64 bits"},
        {{100, 4}, 2, 12, "multiple of q4_K's 256"},
        {{31}, 1, 8, "multiple of q8_0's 32"},
        {{100, 4}, 2, 23, "multiple of iq4_xs's 256"},
        {{4}, 1, 0, NULL},
        {{0}, 1, 0, NULL},
        {{0, 7}, 2, 12, NULL},
        {{256, 0}, 2, 12, NULL},
        {{0}, 0, 0, NULL},
        {{256}, 1, 23, NULL},
        {{1, 1, 1, 1}, 4, 1, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int rc = one_tensor(cases[i].n, cases[i].dims, cases[i].type, 0, 256, &g, &err);
        if (cases[i].say) {
            ASSERT_REJECTED(rc, &err, "\"w\"", cases[i].say);
        } else {
            assert_accepted(rc, &err);
            zl_gguf_close(g);
        }
    }
}

static void unknown_element_types_are_kept_by_number(void **state)
{
    (void)state;
    struct bytes b = {0};
    struct zl_gguf *g;
    struct zl_error err;
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "w", 1, (uint64_t[]){5}, 77, 0);
    put_tensor(&b, "v", 1, (uint64_t[]){5}, 0, 64);
    put_padding(&b, 32);
    put_zeros(&b, 84);
    assert_accepted(open_bytes(&b, &g, &err), &err);
    const struct zl_named_tensor *t = zl_tensors_find(zl_gguf_tensors(g), "w");
    assert_int_equal(t->t.type, ZL_OTHER);
    assert_string_equal(t->type_name, "type 77");
    assert_int_equal(t->t.bytes, 64);
    zl_gguf_close(g);
}

static void offsets_are_checked(void **state)
{
    (void)state;
    struct zl_gguf *g;
    struct zl_error err;
    static const uint64_t dims[] = {8};
    static const struct {
        uint64_t offset;
        size_t data;
        const char *say;
    } bad[] = {{4, 256, "multiple of the alignment 32"},
               {256, 256, "past"},
               {224, 255, "past"},
               {0, 31, "past"},
               {UINT64_MAX - 31, 256, "past the end"},
               {1ull << 40, 256, "past the end"},
               {0, 0, "past"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int rc = one_tensor(1, dims, 0, bad[i].offset, bad[i].data, &g, &err);
        ASSERT_REJECTED(rc, &err, "\"w\"", bad[i].say);
    }
    struct bytes b = {0};
    put_header(&b, 3, 1, 0);
    put_tensor(&b, "ww", 1, dims, 0, 0); /* the file ends before its padding does */
    EXPECT_REJECT(&b, "before its data");
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "w", 1, dims, 0, 0), put_tensor(&b, "w", 1, dims, 0, 32);
    put_padding(&b, 32), put_zeros(&b, 64);
    EXPECT_REJECT(&b, "duplicate tensor name \"w\"");
    put_header(&b, 3, 2, 0);
    put_tensor(&b, "w", 1, (uint64_t[]){16}, 0, 0), put_tensor(&b, "v", 1, dims, 0, 32);
    put_padding(&b, 32), put_zeros(&b, 64);
    EXPECT_REJECT(&b, "\"v\"", "overlaps");
}

static int with_alignment(uint32_t type, uint32_t alignment, struct zl_gguf **g,
                          struct zl_error *err)
{
    struct bytes b = {0};
    put_header(&b, 3, 2, 1);
    put_key(&b, "general.alignment", type);
    if (type == STRING)
        put_string(&b, "32");
    else
        put_u32(&b, alignment);
    const uint32_t step = alignment < 8 || alignment > 4096 ? 32 : alignment;
    put_tensor(&b, "a", 1, (uint64_t[]){2}, 0, 0);
    put_tensor(&b, "b", 1, (uint64_t[]){2}, 0, step);
    put_padding(&b, step);
    put_zeros(&b, step);
    put(&b, (uint32_t[]){7, 8}, 8);
    return open_bytes(&b, g, err);
}

static void alignment_is_a_power_of_two(void **state)
{
    (void)state;
    struct zl_gguf *g;
    struct zl_error err;
    static const uint32_t good[] = {8, 16, 32, 64, 4096}, bad[] = {0, 1, 3, 4, 24, 48};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_accepted(with_alignment(U32, good[i], &g, &err), &err);
        uint32_t eight;
        memcpy(&eight, (const char *)zl_tensors_find(zl_gguf_tensors(g), "b")->t.data + 4, 4);
        assert_int_equal(eight, 8);
        zl_gguf_close(g);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        int rc = with_alignment(U32, bad[i], &g, &err);
        ASSERT_REJECTED(rc, &err, "general.alignment", "power of two");
    }
    int rc = with_alignment(STRING, 32, &g, &err);
    ASSERT_REJECTED(rc, &err, "general.alignment", "is text", "whole number");
    rc = with_alignment(I32, (uint32_t)-32, &g, &err);
    ASSERT_REJECTED(rc, &err, "general.alignment", "-32");
    rc = with_alignment(U32, 1u << 31, &g, &err);
    ASSERT_REJECTED(rc, &err, "before its data");
}

static void every_cut_of_a_file_is_rejected(void **state)
{
    (void)state;
    struct bytes b = {0};
    put_small(&b, 3);
    for (size_t n = 0; n < b.n; n++) {
        struct zl_gguf *g;
        struct zl_error err = {0};
        int rc = zl_gguf_open(files_write("x.gguf", b.p, n), &g, &err);
        ASSERT_REJECTED(rc, &err, "x.gguf");
    }
    bytes_free(&b);
}

static void descriptions_are_short_and_printable(void **state)
{
    (void)state;
    struct bytes b = {0};
    struct zl_gguf *g;
    struct zl_error err;
    char long_text[200];
    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = 0;
    memcpy(long_text + 71, "\xc3\xa9", 2); /* the cut would split it */
    put_header(&b, 3, 0, 9);
    put_key(&b, "a", STRING), put_string(&b, "two\nlines\x1b");
    put_key(&b, "b", STRING), put_string(&b, "\xff\xfe");
    put_key(&b, "c", STRING), put_string(&b, long_text);
    put_key(&b, "d", F32), put(&b, &(float){1e-5f}, 4);
    put_key(&b, "e", F32), put(&b, &(float){NAN}, 4);
    put_key(&b, "f", I64), put_u64(&b, (uint64_t)-3);
    put_key(&b, "g", U64), put_u64(&b, UINT64_MAX);
    put_key(&b, "h", BOOL), put(&b, "\1", 1);
    put_key(&b, "i", ARRAY), put_u32(&b, U16), put_u64(&b, 2), put_u32(&b, 0);
    assert_accepted(open_bytes(&b, &g, &err), &err);
    char value[256], want[256];
    const char *key;
    long_text[71] = 0;
    snprintf(want, sizeof want, "\"%s\"... (199 bytes)", long_text);
    const char *const expected[] = {"\"two\\nlines\\u001B\"",
                                    "2 bytes",
                                    want,
                                    "1e-5",
                                    "nan",
                                    "-3",
                                    "18446744073709551615",
                                    "true",
                                    "array of 2 uint16"};
    for (size_t i = 0; i < 9; i++) {
        assert_true(zl_gguf_describe(g, i, &key, value, sizeof value));
        assert_int_equal(key[0], 'a' + (int)i);
        assert_string_equal(value, expected[i]);
    }
    assert_false(zl_gguf_describe(g, 9, &key, value, sizeof value));
    zl_gguf_close(g);
}

static void expect_equal(const struct zl_tensors *a, const char *name_a, const struct zl_tensors *b,
                         const char *name_b)
{
    const struct zl_named_tensor *x = zl_tensors_find(a, name_a), *y = zl_tensors_find(b, name_b);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(x->t.n_dims, y->t.n_dims);
    assert_memory_equal(x->t.shape, y->t.shape, sizeof x->t.shape);
    assert_int_equal(x->t.bytes, y->t.bytes);
    assert_memory_equal(x->t.data, y->t.data, x->t.bytes);
}

static void reference_files_equal_their_safetensors(void **state)
{
    (void)state;
    static const struct {
        const char *gguf, *dir;
    } pairs[] = {{"llama-f32", "llama"}, {"llama3-f32", "llama3"}, {"qwen3-f32", "qwen3"}};
    static const char *const names[][2] = {
        {"token_embd.weight", "model.embed_tokens.weight"},
        {"output_norm.weight", "model.norm.weight"},
        {"blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"},
        {"blk.1.ffn_norm.weight", "model.layers.1.post_attention_layernorm.weight"},
        {"blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight"},
        {"blk.1.attn_output.weight", "model.layers.1.self_attn.o_proj.weight"},
        {"blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight"},
        {"blk.1.ffn_up.weight", "model.layers.1.mlp.up_proj.weight"},
        {"blk.1.ffn_down.weight", "model.layers.1.mlp.down_proj.weight"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char path[256];
        struct zl_gguf *g;
        struct zl_tensors *s;
        struct zl_error err = {0};
        snprintf(path, sizeof path, "golden/gguf/%s.gguf", pairs[i].gguf);
        assert_accepted(zl_gguf_open(zl_test_shared(path), &g, &err), &err);
        snprintf(path, sizeof path, "golden/models/%s", pairs[i].dir);
        assert_accepted(zl_safetensors_open_dir(zl_test_shared(path), &s, &err), &err);
        for (size_t k = 0; k < sizeof names / sizeof *names; k++)
            expect_equal(zl_gguf_tensors(g), names[k][0], s, names[k][1]);
        zl_gguf_close(g);
        zl_tensors_close(s);
    }
}

static void reference_files_hold_the_types_they_name(void **state)
{
    (void)state;
    static const struct {
        const char *gguf, *tensor, *type_name;
        enum zl_type type;
    } f[] = {{"llama-f32", "blk.0.ffn_up.weight", "f32", ZL_F32},
             {"llama-f16", "blk.0.ffn_up.weight", "f16", ZL_F16},
             {"llama-q8_0", "blk.0.ffn_up.weight", "q8_0", ZL_Q8_0},
             {"llama-Q4_0", "blk.0.ffn_up.weight", "q4_0", ZL_Q4_0},
             {"llama-Q5_1", "blk.0.ffn_up.weight", "q5_1", ZL_Q5_1},
             {"llama-k-Q4_K_M", "blk.0.ffn_up.weight", "q4_K", ZL_Q4_K},
             {"llama-k-Q5_K_S", "blk.0.ffn_up.weight", "q5_K", ZL_Q5_K},
             {"llama-k-Q2_K", "blk.0.attn_q.weight", "q2_K", ZL_OTHER},
             {"llama-k-IQ4_XS", "blk.0.ffn_up.weight", "iq4_xs", ZL_OTHER},
             {"llama3-f32", "rope_freqs.weight", "f32", ZL_F32},
             {"qwen2-bf16", "blk.0.ffn_up.weight", "bf16", ZL_BF16},
             {"qwen2-q8_0", "blk.0.attn_q.bias", "f32", ZL_F32},
             {"qwen3-q8_0", "token_embd.weight", "q8_0", ZL_Q8_0},
             {"gpt2-f16", "blk.0.ffn_up.weight", "f16", ZL_F16}};
    for (size_t i = 0; i < sizeof f / sizeof *f; i++) {
        char path[256];
        struct zl_gguf *g;
        struct zl_error err = {0};
        snprintf(path, sizeof path, "golden/gguf/%s.gguf", f[i].gguf);
        assert_accepted(zl_gguf_open(zl_test_shared(path), &g, &err), &err);
        const struct zl_named_tensor *t = zl_tensors_find(zl_gguf_tensors(g), f[i].tensor);
        assert_non_null(t);
        assert_string_equal(t->type_name, f[i].type_name);
        assert_int_equal(t->t.type, f[i].type);
        const char *key;
        char value[256];
        size_t n = 0;
        while (zl_gguf_describe(g, n, &key, value, sizeof value))
            n++;
        assert_true(n > 10);
        zl_gguf_close(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILES_TEST(a_small_file_loads),
        FILES_TEST(values_are_read_by_their_type),
        FILES_TEST(wrong_types_are_named),
        FILES_TEST(lengths_past_the_end_cost_no_memory),
        FILES_TEST(arrays_nest_only_so_deep),
        FILES_TEST(bad_names_and_types_are_rejected),
        FILES_TEST(versions_other_than_2_and_3_are_rejected),
        FILES_TEST(dimensions_are_checked),
        FILES_TEST(unknown_element_types_are_kept_by_number),
        FILES_TEST(offsets_are_checked),
        FILES_TEST(alignment_is_a_power_of_two),
        FILES_TEST(every_cut_of_a_file_is_rejected),
        FILES_TEST(descriptions_are_short_and_printable),
        cmocka_unit_test(reference_files_equal_their_safetensors),
        cmocka_unit_test(reference_files_hold_the_types_they_name),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
