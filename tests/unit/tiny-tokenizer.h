/*
 * Small tokenizers made in a test: a byte-level one (ids 0..255 are the bytes) and a
 * SentencePiece-like one (<unk> <s> </s>, then <0x00>..<0xFF>, then what the test adds), as JSON to
 * change and to open.
 */
#ifndef ZL_TINY_TOKENIZER_H
#define ZL_TINY_TOKENIZER_H

#include "tests/unit/test.h"

#include <jansson.h>

#include "format/tokenizer.h"

static inline void tiny_write(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    fclose(f);
}

/* Open a directory with these files; NULL: no such file. Returns the code, and takes the directory
 * away again. */
static inline int tiny_open_texts(const char *tokenizer, const char *tokenizer_config,
                                  const char *config, struct zl_tokenizer **t, struct zl_error *err)
{
    const struct {
        const char *name, *text;
    } files[] = {{"tokenizer.json", tokenizer},
                 {"tokenizer_config.json", tokenizer_config},
                 {"config.json", config}};
    char dir[] = "/tmp/zl-tokenizer-XXXXXX", path[512];
    assert_non_null(mkdtemp(dir));
    for (size_t i = 0; i < 3; i++)
        if (files[i].text)
            tiny_write(dir, files[i].name, files[i].text);
    *t = NULL;
    *err = (struct zl_error){0};
    int rc = zl_tokenizer_open_dir(dir, t, err);
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, files[i].name);
        unlink(path);
    }
    rmdir(dir);
    return rc;
}

/* Takes root. */
static inline struct zl_tokenizer *tiny_open(json_t *root, const char *tokenizer_config)
{
    struct zl_tokenizer *t;
    struct zl_error err;
    char *text = json_dumps(root, 0);
    if (tiny_open_texts(text, tokenizer_config, NULL, &t, &err))
        fail_msg("%s", err.text);
    free(text);
    json_decref(root);
    return t;
}

static inline json_t *tiny_root(json_t *vocab)
{
    return json_pack("{s:[], s:{s:s, s:o, s:[]}}", "added_tokens", "model", "type", "BPE", "vocab",
                     vocab, "merges");
}

static inline json_t *tiny_json(const char *text)
{
    json_error_t e;
    json_t *v = json_loads(text, JSON_DECODE_ANY, &e);
    if (!v)
        fail_msg("%s: %s", text, e.text);
    return v;
}

static inline json_t *tiny_byte_level(void)
{
    json_t *vocab = json_object();
    int next = 0x100;
    for (int b = 0; b < 256; b++) {
        bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
        int c = printable ? b : next++;
        char s[3] = {(char)c};
        if (c >= 0x80) {
            s[0] = (char)(0xc0 | c >> 6);
            s[1] = (char)(0x80 | (c & 0x3f));
        }
        json_object_set_new(vocab, s, json_integer(b));
    }
    json_t *root = tiny_root(vocab);
    json_object_set_new(
        root, "pre_tokenizer",
        tiny_json("{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true}"));
    json_object_set_new(root, "decoder", tiny_json("{\"type\":\"ByteLevel\"}"));
    return root;
}

/* A new token of the vocabulary; its id. */
static inline int tiny_piece(json_t *root, const char *text)
{
    json_t *vocab = json_object_get(json_object_get(root, "model"), "vocab");
    int id = (int)json_object_size(vocab);
    json_object_set_new(vocab, text, json_integer(id));
    return id;
}

/* A merge and its token; the token's id. */
static inline int tiny_merge(json_t *root, const char *left, const char *right)
{
    json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    char joined[256];
    snprintf(joined, sizeof joined, "%s%s", left, right);
    json_array_append_new(json_object_get(model, "merges"), json_pack("[ss]", left, right));
    json_t *known = json_object_get(vocab, joined);
    return known ? (int)json_integer_value(known) : tiny_piece(root, joined);
}

/* An added token; flags: "special", "lstrip", … or NULL, ended by NULL. */
static inline void tiny_added(json_t *root, int id, const char *text, const char *const *flags)
{
    json_t *a = json_pack("{s:i, s:s}", "id", id, "content", text);
    for (; flags && *flags; flags++)
        json_object_set_new(a, *flags, json_true());
    json_array_append_new(json_object_get(root, "added_tokens"), a);
}

#define FLAGS(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }
#define SPACE_MARK "\xe2\x96\x81"

/* <unk> 0, <s> 1, </s> 2, bytes 3..258; Prepend + Replace; BOS template. */
static inline json_t *tiny_spm(void)
{
    json_t *root = tiny_root(json_object());
    static const char *const names[] = {"<unk>", "<s>", "</s>"};
    for (int i = 0; i < 3; i++) {
        tiny_piece(root, names[i]);
        tiny_added(root, i, names[i], FLAGS("special"));
    }
    for (int b = 0; b < 256; b++) {
        char s[8];
        snprintf(s, sizeof s, "<0x%02X>", b);
        tiny_piece(root, s);
    }
    json_t *model = json_object_get(root, "model");
    json_object_set_new(model, "unk_token", json_string("<unk>"));
    json_object_set_new(model, "fuse_unk", json_true());
    json_object_set_new(model, "byte_fallback", json_true());
    json_object_set_new(
        root, "normalizer",
        tiny_json(
            "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"
            "\"" SPACE_MARK
            "\"},{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE_MARK
            "\"}]}"));
    json_object_set_new(root, "post_processor",
                        tiny_json("{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
                                  "\"id\":\"<s>\",\"type_id\":0}},"
                                  "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":"
                                  "{\"<s>\":{\"id\":\"<s>\",\"ids\":[1],"
                                  "\"tokens\":[\"<s>\"]}}}"));
    json_object_set_new(
        root, "decoder",
        tiny_json("{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\",\"pattern\":{"
                  "\"String\":\"" SPACE_MARK "\"},\"content\":\" "
                  "\"},{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"},{\"type\":\"Strip\","
                  "\"content\":\" \",\"start\":1,\"stop\":0}]}"));
    return root;
}

/* Encode and compare with the ids behind n. */
static inline void tiny_expect(const struct zl_tokenizer *t, const char *text, unsigned flags,
                               const int *want, size_t n)
{
    struct zl_ids ids = {0};
    struct zl_error err = {0};
    if (zl_tokenizer_encode(t, text, strlen(text), flags, &ids, &err))
        fail_msg("%s", err.text);
    bool same = ids.n == n;
    for (size_t i = 0; i < n && same; i++)
        same = ids.id[i] == want[i];
    if (!same) {
        print_error("\"%s\" gives", text);
        for (size_t i = 0; i < ids.n; i++)
            print_error(" %d", ids.id[i]);
        print_error(", expected");
        for (size_t i = 0; i < n; i++)
            print_error(" %d", want[i]);
        print_error("\n");
    }
    zl_ids_free(&ids);
    assert_true(same);
}
#define EXPECT(t, text, flags, ...)                                                                \
    tiny_expect(t, text, flags, (const int[]){__VA_ARGS__},                                        \
                sizeof(const int[]){__VA_ARGS__} / sizeof(int))

#endif
