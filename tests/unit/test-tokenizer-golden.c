/*
 * Tokenizers against reference ids: every case of cases.jsonl (see the README of the reference
 * data) must be equal, encoded and decoded, whole and streamed. Skipped where the reference data is
 * absent; test-tokenizer.c does not need it.
 */
#include "tests/unit/test.h"

#include <jansson.h>

#include "format/tokenizer.h"

static bool same_ids(const struct zl_ids *got, const json_t *want)
{
    bool same = got->n == json_array_size(want);
    for (size_t i = 0; i < got->n && same; i++)
        same = got->id[i] == json_integer_value(json_array_get(want, i));
    return same;
}

static void show(const char *what, const struct zl_ids *got, const json_t *want)
{
    print_error("%s\n  got ", what);
    for (size_t i = 0; i < got->n && i < 60; i++)
        print_error(" %d", got->id[i]);
    print_error("\n  want");
    for (size_t i = 0; i < json_array_size(want) && i < 60; i++)
        print_error(" %d", (int)json_integer_value(json_array_get(want, i)));
    print_error("\n");
}

/* Decoded whole and streamed; both must be the expected text. */
static bool same_text(const struct zl_tokenizer *t, const struct zl_ids *ids, bool skip,
                      const json_t *want)
{
    struct zl_error err = {0};
    char *text = NULL, *streamed = NULL;
    size_t n = 0, piece_n, streamed_n = 0;
    FILE *f = open_memstream(&streamed, &streamed_n);
    struct zl_detokenizer *d = zl_detokenizer_new(t, skip);
    assert_int_equal(zl_tokenizer_decode(t, ids->id, ids->n, skip, &text, &n, &err), 0);
    for (size_t i = 0; i < ids->n; i++) {
        const char *piece = zl_detokenizer_push(d, ids->id[i], &piece_n);
        fwrite(piece, 1, piece_n, f);
    }
    const char *rest = zl_detokenizer_finish(d, &piece_n);
    fwrite(rest, 1, piece_n, f);
    fclose(f);
    bool same = n == json_string_length(want) && memcmp(text, json_string_value(want), n) == 0 &&
                n == streamed_n && memcmp(text, streamed, n) == 0;
    if (!same)
        print_error("decoded (skip %d)\n  got  \"%s\"\n  want \"%s\"\n  streamed \"%s\"\n", skip,
                    text, json_string_value(want), streamed);
    zl_detokenizer_free(d);
    free(text);
    free(streamed);
    return same;
}

static size_t check_cases(const struct zl_tokenizer *t, const char *path, size_t *n_cases)
{
    FILE *f = fopen(path, "r");
    char *line = NULL;
    size_t size = 0, failed = 0;
    assert_non_null(f);
    for (ssize_t n; (n = getline(&line, &size, f)) > 0;) {
        json_t *c = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, NULL);
        assert_non_null(c);
        const json_t *text = json_object_get(c, "text"), *ids = json_object_get(c, "ids");
        struct zl_ids got = {0};
        struct zl_error err = {0};
        unsigned flags =
            json_is_true(json_object_get(c, "add_special_tokens")) ? ZL_ENCODE_SPECIAL : 0;
        bool ok = zl_tokenizer_encode(t, json_string_value(text), json_string_length(text), flags,
                                      &got, &err) == 0;
        if (!ok)
            print_error("%s\n", err.text);
        if (ok && !same_ids(&got, ids)) {
            ok = false;
            show(json_string_value(text), &got, ids);
        }
        ok = ok && same_text(t, &got, false, json_object_get(c, "decoded")) &&
             same_text(t, &got, true, json_object_get(c, "decoded_skip_special"));
        failed += !ok;
        ++*n_cases;
        zl_ids_free(&got);
        json_decref(c);
    }
    free(line);
    fclose(f);
    return failed;
}

static void equals_reference(void **state)
{
    const char *name = *state;
    char relative[256];
    snprintf(relative, sizeof relative, "golden/tokenizers/%s/cases.jsonl", name);
    const char *cases = zl_test_shared(relative);
    snprintf(relative, sizeof relative, "golden/tokenizers/%s", name);
    struct zl_tokenizer *t = NULL;
    struct zl_error err = {0};
    if (zl_tokenizer_open_dir(zl_test_shared(relative), &t, &err))
        fail_msg("%s", err.text);
    size_t n = 0, failed = check_cases(t, cases, &n);
    print_message("%s: %zu of %zu cases equal\n", name, n - failed, n);
    assert_int_equal(failed, 0);
    assert_true(n > 100);
    zl_tokenizer_close(t);
}

/* The tokenizer of a GGUF file against the cases of the tokenizer.json that it was made from. */
static void gguf_equals(const char *path, const char *cases, bool add_bos)
{
    struct zl_gguf *g = NULL;
    struct zl_tokenizer *t = NULL;
    struct zl_error err = {0};
    if (zl_gguf_open(path, &g, &err) || zl_tokenizer_open_gguf(g, &t, &err))
        fail_msg("%s", err.text);
    zl_gguf_close(g);
    assert_int_equal(zl_tokenizer_adds_bos(t), add_bos);
    size_t n = 0, failed = check_cases(t, cases, &n);
    print_message("%s: %zu of %zu cases equal\n", path, n - failed, n);
    assert_int_equal(failed, 0);
    assert_true(n > 100);
    zl_tokenizer_close(t);
}

struct pair {
    const char *gguf, *json;
    bool add_bos;
};

static void gguf_equals_reference(void **state)
{
    const struct pair *p = *state;
    char relative[256];
    snprintf(relative, sizeof relative, "golden/gguf/%s", p->gguf);
    const char *path = zl_test_shared(relative);
    snprintf(relative, sizeof relative, "golden/tokenizers/%s/cases.jsonl", p->json);
    gguf_equals(path, zl_test_shared(relative), p->add_bos);
}

static void real_gguf_equals_reference(void **state)
{
    (void)state;
    char path[4096];
    const char *given = getenv("ZL_SMOLLM2"), *home = getenv("HOME");
    if (given)
        snprintf(path, sizeof path, "%s", given);
    else
        snprintf(path, sizeof path, "%s/.cache/zerolock/SmolLM2-135M-Instruct.Q4_1.gguf",
                 home ? home : "");
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is not here\n", path);
        skip();
    }
    gguf_equals(path, zl_test_shared("golden/tokenizers/smollm2/cases.jsonl"), false);
}

#define GGUF(file, name, bos)                                                                      \
    {                                                                                              \
        "gguf-equals-reference-" file, gguf_equals_reference, NULL, NULL, &(struct pair)           \
        {                                                                                          \
            file, name, bos                                                                        \
        }                                                                                          \
    }

#define EQUAL(name)                                                                                \
    {                                                                                              \
        "equals-reference-" name, equals_reference, NULL, NULL, (void *)name                       \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        EQUAL("gpt2"),
        EQUAL("qwen2_5"),
        EQUAL("smollm2"),
        EQUAL("yi"),
        EQUAL("tiny-gpt2"),
        EQUAL("tiny-opt"),
        EQUAL("tiny-qwen"),
        EQUAL("tiny-roberta"),
        EQUAL("tiny-llama2"),
        EQUAL("tiny-llama3"),
        EQUAL("tiny-llama2-metaspace"),
        GGUF("llama-f16.gguf", "tiny-llama2", true),
        GGUF("llama3-f32.gguf", "tiny-llama3", true),
        GGUF("gpt2-f16.gguf", "tiny-gpt2", false),
        GGUF("qwen2-bf16.gguf", "tiny-qwen", false),
        GGUF("qwen3-f32.gguf", "tiny-qwen", false),
        cmocka_unit_test(real_gguf_equals_reference),
    };
    return cmocka_run_group_tests_name("tokenizer-golden", tests, NULL, NULL);
}
