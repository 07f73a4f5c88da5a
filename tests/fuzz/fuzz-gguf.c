/* Mutated GGUF files: either refused with a sentence or open with every value and byte readable.
 * Usage: fuzz-gguf [COUNT [FIRST]] */
#include "tests/fuzz/mutate.h"

#include "format/gguf.h"
#include "tests/unit/gguf_bytes.h"

static uint64_t visit_value(const struct zl_gguf *g, const char *key)
{
    struct zl_error err = {0};
    uint64_t u, n, sum = 0;
    double x;
    bool yes;
    const char *text;
    size_t len;
    const struct zl_gguf_str *texts;
    const float *floats;
    const int32_t *ints;
    zl_gguf_u64(g, key, &u, &err);
    zl_gguf_f64(g, key, &x, &err);
    zl_gguf_bool(g, key, &yes, &err);
    if (!zl_gguf_string(g, key, &text, &len, &err))
        sum += touch(text, len);
    if (!zl_gguf_f32s(g, key, &floats, &n, &err))
        sum += touch(floats, n * 4);
    if (!zl_gguf_i32s(g, key, &ints, &n, &err))
        sum += touch(ints, n * 4);
    if (!zl_gguf_strings(g, key, &texts, &n, &err))
        for (uint64_t i = 0; i < n; i++)
            sum += touch(texts[i].s, texts[i].len);
    return sum;
}

static uint64_t visit(const struct zl_gguf *g)
{
    const struct zl_tensors *s = zl_gguf_tensors(g);
    uint64_t sum = 0;
    const char *key;
    char value[100];
    for (size_t i = 0; zl_gguf_describe(g, i, &key, value, sizeof value); i++)
        sum += visit_value(g, key) + strlen(value);
    for (size_t i = 0; i < zl_tensors_count(s); i++) {
        const struct zl_named_tensor *t = zl_tensors_at(s, i);
        uint64_t bytes;
        assert_ptr_equal(zl_tensors_find(s, t->name), t);
        if (t->t.type != ZL_OTHER) {
            assert_true(zl_type_bytes(t->t.type, zl_tensor_elements(&t->t), &bytes));
            assert_true(bytes == t->t.bytes);
        }
        sum += touch(t->t.data, t->t.bytes) + strlen(t->type_name);
    }
    return sum;
}

int main(int argc, char **argv)
{
    static const char *const words[] = {"GGUF",
                                        "general.alignment",
                                        "\x20\0\0\0\0\0\0\0",
                                        "\x09",
                                        "\x08",
                                        "\x0c",
                                        "\x1e",
                                        "w",
                                        "n",
                                        "\xff\xff\xff\xff",
                                        NULL};
    struct mutator m;
    struct bytes file = {0};
    uint64_t first, end, opened = 0, sum = 0;
    fuzz_range(argc, argv, &first, &end);
    mutator_init(&m, words);
    put_small(&file, 3);
    for (uint64_t i = first; i < end; i++) {
        struct zl_gguf *g;
        struct zl_error err = {0};
        mutant(&m, &file, i, -1);
        if (!zl_gguf_open(m.path, &g, &err)) {
            opened++;
            sum += visit(g);
            zl_gguf_close(g);
        } else if (err.code == ZL_OK || !*err.text) {
            fprintf(stderr, "mutant %llu: refused without a word\n", (unsigned long long)i);
            return 1;
        }
    }
    printf("%llu mutants, %llu open, byte sum %llu\n", (unsigned long long)(end - first),
           (unsigned long long)opened, (unsigned long long)sum);
    bytes_free(&file);
    return 0;
}
