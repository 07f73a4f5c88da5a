/*
 * Tokenizer files that are wrong: each is refused with one sentence that names the file, the place,
 * what was found and what was expected, and nothing is allocated that the file does not pay for.
 * tokenizer.json first, then GGUF metadata.
 */
#include "tests/unit/gguf_bytes.h"
#include "tests/unit/tiny-tokenizer.h"

#include <math.h>

#define MODEL(vocab, merges)                                                                       \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":" vocab ",\"merges\":" merges "}}"
#define WITH(rest)                                                                                 \
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":[]}," rest "}"
#define ADDED(token) WITH("\"added_tokens\":[" token "]")

static const struct {
    const char *json, *why;
} bad_json[] = {
    {"", "no valid JSON"},
    {"{", "line 1"},
    {"[]", "the file is an array, expected an object"},
    {"{}", "has no \"model\""},
    {"{\"model\":[]}", "\"model\" of the file is an array, expected an object"},
    {"{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0.5]]}}",
     "model type \"Unigram\" is not supported"},
    {"{\"model\":{\"type\":\"WordPiece\",\"vocab\":{\"a\":0}}}",
     "model type \"WordPiece\" is not supported"},
    {"{\"model\":{\"type\":7}}", "\"type\" of model is an integer, expected a string"},
    {"{\"model\":{\"merges\":[]}}", "model has no \"vocab\""},
    {"{\"model\":{\"vocab\":{\"a\":0}}}", "model has no \"merges\""},
    {MODEL("{}", "[]"), "model.vocab is empty"},
    {MODEL("[\"a\"]", "[]"), "\"vocab\" of model is an array"},
    {MODEL("{\"a\":0,\"a\":1}", "[]"), "duplicate"},
    {MODEL("{\"a\":\"0\"}", "[]"), "id of \"a\" in model.vocab is a string"},
    {MODEL("{\"a\":0.0}", "[]"), "id of \"a\" in model.vocab is a fraction"},
    {MODEL("{\"a\":1e3}", "[]"), "id of \"a\" in model.vocab is a fraction"},
    {MODEL("{\"a\":-1}", "[]"), "has id -1, expected 0 to"},
    {MODEL("{\"a\":4294967296}", "[]"), "has id 4294967296"},
    {MODEL("{\"a\":99999999999999999999}", "[]"), "no valid JSON"},
    {MODEL("{\"a\":2147483646}", "[]"), "largest id is 2147483646, but there are only 1 tokens"},
    {MODEL("{\"a\":0,\"b\\n\":0}", "[]"), "in model.vocab have the same id 0"},
    {MODEL("{\"a\":0}", "{}"), "\"merges\" of model is an object"},
    {MODEL("{\"a\":0}", "[\"a z\"]"), "merge 0 needs the token \"z\""},
    {MODEL("{\"a\":0}", "[[\"a\",\"a\"]]"), "merge 0 needs the token \"aa\""},
    {MODEL("{\"a\":0}", "[\"aa\"]"), "merge 0 is a string without exactly one blank"},
    {MODEL("{\"a\":0}", "[\"a a a\"]"), "without exactly one blank"},
    {MODEL("{\"a\":0}", "[[\"a\"]]"), "merge 0 is an array"},
    {MODEL("{\"a\":0}", "[[\"a\",1]]"), "merge 0 is an array"},
    {MODEL("{\"a\":0}", "[7]"), "merge 0 is an integer"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"u\"}}",
     "unk_token \"u\" is not in the vocabulary"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"dropout\":0.1}}", "dropout"},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"end_of_word_suffix\":\"</w>\"}}",
     "end_of_word_suffix \"</w>\""},
    {"{\"model\":{\"vocab\":{\"a\":0},\"merges\":[],\"byte_fallback\":1}}",
     "expected true or false"},
    {WITH("\"added_tokens\":{}"), "\"added_tokens\" of the file is an object"},
    {ADDED("7"), "an entry of added_tokens is an integer"},
    {ADDED("{\"id\":2}"), "has no \"content\""},
    {ADDED("{\"content\":\"x\"}"), "has no \"id\""},
    {ADDED("{\"id\":2,\"content\":\"x\",\"special\":0}"),
     "\"special\" of an entry of added_tokens is an integer"},
    {ADDED("{\"id\":1,\"content\":\"x\"}"), "\"x\" has id 1, which is that of \"b\""},
    {ADDED("{\"id\":7,\"content\":\"a\"}"), "has id 7, but the vocabulary has it with id 0"},
    {ADDED("{\"id\":2000000,\"content\":\"x\"}"), "largest id is 2000000"},
    {WITH("\"normalizer\":{}"), "normalizer has no \"type\""},
    {WITH("\"normalizer\":{\"type\":\"Lowercase\"}"),
     "normalizer type \"Lowercase\" is not supported"},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{},\"content\":\"\"}"),
     "pattern has no \"Regex\""},
    {WITH("\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"(\"},\"content\":\"\"}"),
     "is not valid"},
    {WITH("\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[7]}"),
     "normalizer is an integer"},
    {WITH("\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"}"),
     "pre_tokenizer type \"BertPreTokenizer\""},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a[b]]\"}}"),
     "set inside a set at byte 2"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[a&&b]\"}}"),
     "set inside a set"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"a\"},\"behavior\":"
          "\"Sideways\"}"),
     "behavior \"Sideways\""},
    {WITH("\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"\"}"),
     "replacement of a Metaspace"},
    {WITH("\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\"},{"
          "\"type\":\"Digits\"}]}"),
     "behind ByteLevel"},
    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[],\"special_tokens\":{}"
          "}"),
     "has no sequence \"A\""},
    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"Sequence\":{\"id\":"
          "\"B\"}}],"
          "\"special_tokens\":{}}"),
     "the sequence \"B\""},
    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
          "\"id\":\"<s>\"}}],"
          "\"special_tokens\":{}}"),
     "special_tokens has no \"<s>\""},
    {WITH("\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
          "\"id\":\"<s>\"}}],"
          "\"special_tokens\":{\"<s>\":{\"ids\":[2]}}}"),
     "the id 2, which no token has"},
    {WITH("\"post_processor\":{\"type\":\"RobertaProcessing\",\"cls\":[\"a\",0],\"sep\":[\"b\",-7]"
          "}"),
     "the id -7"},
    {WITH("\"decoder\":{\"type\":\"WordPiece\"}"), "decoder type \"WordPiece\" is not supported"},
    {WITH("\"decoder\":{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}"),
     "Strip stands where"},
    {WITH("\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"ByteLevel\"},{\"type\":"
          "\"Fuse\"}]}"),
     "Fuse stands where"},
};

static void expect_sentence(int rc, const struct zl_error *err, const char *file, const char *why)
{
    if (rc != ZL_EINPUT || !strstr(err->text, why) || !strstr(err->text, file) ||
        strchr(err->text, '\n'))
        fail_msg("expected \"%s\", got %d: %s", why, rc, err->text);
}

static void bad_tokenizer_json_is_refused_with_a_sentence(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad_json / sizeof *bad_json; i++) {
        struct zl_tokenizer *t;
        struct zl_error err;
        int rc = tiny_open_texts(bad_json[i].json, NULL, NULL, &t, &err);
        assert_null(t);
        expect_sentence(rc, &err, "tokenizer.json", bad_json[i].why);
    }
}

static void deep_nesting_and_missing_files_are_refused(void **state)
{
    (void)state;
    struct zl_tokenizer *t = NULL;
    struct zl_error err = {0};
    char *deep = malloc(1 << 20);
    memset(deep, '[', (1 << 20) - 1);
    deep[(1 << 20) - 1] = '\0';
    expect_sentence(tiny_open_texts(deep, NULL, NULL, &t, &err), &err, "tokenizer.json",
                    "no valid JSON");
    free(deep);
    err = (struct zl_error){0};
    expect_sentence(zl_tokenizer_open_dir("/nonexistent", &t, &err), &err,
                    "/nonexistent/tokenizer.json", "cannot open");
    json_t *root = tiny_byte_level(), *inner = tiny_json("{\"type\":\"NFC\"}");
    for (int i = 0; i < 6; i++)
        inner = json_pack("{s:s,s:[o]}", "type", "Sequence", "normalizers", inner);
    json_object_set_new(root, "normalizer", inner);
    char *text = json_dumps(root, 0);
    expect_sentence(tiny_open_texts(text, NULL, NULL, &t, &err), &err, "tokenizer.json",
                    "nested more than 4 deep");
    free(text);
    json_decref(root);
}

/* Stages that make a text of 10^28 bytes out of one are stopped on the way. */
static void growth_by_replacing_is_bounded(void **state)
{
    (void)state;
    for (int decoding = 0; decoding < 2; decoding++) {
        json_t *list = json_array(), *root = tiny_byte_level();
        char many[65];
        memset(many, 'a', 64);
        many[64] = '\0';
        for (int i = 0; i < 16; i++)
            json_array_append_new(list, json_pack("{s:s,s:{s:s},s:s}", "type", "Replace", "pattern",
                                                  "String", "a", "content", many));
        json_object_set_new(root, decoding ? "decoder" : "normalizer",
                            json_pack("{s:s,s:o}", "type", "Sequence",
                                      decoding ? "decoders" : "normalizers", list));
        char *text = json_dumps(root, 0);
        struct zl_tokenizer *t;
        struct zl_error err;
        struct zl_ids ids = {0};
        int rc = tiny_open_texts(text, NULL, NULL, &t, &err);
        if (!decoding) {
            assert_int_equal(rc, 0);
            rc = zl_tokenizer_encode(t, "a", 1, 0, &ids, &err);
        }
        expect_sentence(rc, &err, decoding ? "decoder" : "tokenizer.json", "out of one");
        zl_ids_free(&ids);
        zl_tokenizer_close(t);
        json_decref(root);
        free(text);
    }
}

static void files_beside_the_tokenizer_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *tokenizer_config, *config, *file, *why;
    } cases[] = {
        {"[]", NULL, "tokenizer_config.json", "is an array, expected an object"},
        {"{\"bos_token\":7}", NULL, "tokenizer_config.json", "\"bos_token\" is an integer"},
        {"{\"eos_token\":\"<eos>\"}", NULL, "tokenizer_config.json",
         "\"<eos>\", which is no token"},
        {"{\"chat_template\":{}}", NULL, "tokenizer_config.json", "\"chat_template\" is an object"},
        {NULL, "{\"vocab_size\":255}", "config.json",
         "vocab_size is 255, but the tokenizer has the id 255"},
        {NULL, "{\"vocab_size\":\"x\"}", "config.json", "\"vocab_size\" of the file is a string"},
        {NULL, "{\"eos_token_id\":256}", "config.json", "\"eos_token_id\" is 256, which no token"},
        {NULL, "{\"eos_token_id\":[1,-1]}", "config.json", "\"eos_token_id\" is -1"},
        {NULL, "{\"eos_token_id\":\"x\"}", "config.json", "\"eos_token_id\" is a string"},
    };
    json_t *root = tiny_byte_level();
    char *text = json_dumps(root, 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct zl_tokenizer *t;
        struct zl_error err;
        int rc = tiny_open_texts(text, cases[i].tokenizer_config, cases[i].config, &t, &err);
        expect_sentence(rc, &err, cases[i].file, cases[i].why);
    }
    struct zl_tokenizer *t;
    struct zl_error err; /* more rows than tokens is padding */
    assert_int_equal(tiny_open_texts(text, NULL, "{\"vocab_size\":320}", &t, &err), 0);
    assert_int_equal(zl_tokenizer_size(t), 256);
    zl_tokenizer_close(t);
    free(text);
    json_decref(root);
}

static void a_pattern_that_explodes_is_an_error(void **state)
{
    (void)state;
    json_t *root = tiny_byte_level();
    json_object_set_new(
        root, "pre_tokenizer",
        tiny_json(
            "{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a|aa)+$\"},\"behavior\":\"Isolated\"}"));
    struct zl_tokenizer *t = tiny_open(root, NULL);
    char text[2001];
    memset(text, 'a', 2000);
    strcpy(text + 1999, "b");
    struct zl_ids ids = {0};
    struct zl_error err = {0};
    expect_sentence(zl_tokenizer_encode(t, text, strlen(text), 0, &ids, &err), &err, "", "pattern");
    zl_ids_free(&ids);
    zl_tokenizer_close(t);
}

/* ---- GGUF ---- */
struct meta { /* a small "llama" or "gpt2" tokenizer; what a case changes */
    const char *model, *pre;
    uint32_t scores_type, types_type;
    uint64_t n_scores, n_types;
    float second_score;
    int32_t second_type;
    const char *second_token, *merge;
    uint32_t bos;
    bool bos_is_text, rows_missing;
};

static const struct meta good_llama = {"llama", "default", F32,  I32, 3,     3,    -1,
                                       1,       "ab",      NULL, 0,   false, false};
static const struct meta good_gpt2 = {"gpt2", "gpt-2", F32,   I32, 0,     3,    -1,
                                      1,      "ab",    "a b", 0,   false, false};

static void put_meta(struct bytes *b, const struct meta *m)
{
    bool llama = strcmp(m->model, "llama") == 0;
    put_header(b, 3, m->rows_missing,
               5 + (llama || m->n_scores) + (m->merge != NULL) - !m->n_types);
    put_key(b, "tokenizer.ggml.model", STRING), put_string(b, m->model);
    put_key(b, "tokenizer.ggml.pre", STRING), put_string(b, m->pre);
    put_key(b, "tokenizer.ggml.tokens", ARRAY), put_u32(b, STRING), put_u64(b, 3);
    put_string(b, "a"), put_string(b, m->second_token), put_string(b, "b");
    put_key(b, "tokenizer.ggml.bos_token_id", m->bos_is_text ? STRING : U32);
    if (m->bos_is_text)
        put_string(b, "a");
    else
        put_u32(b, m->bos);
    if (llama || m->n_scores) {
        put_key(b, "tokenizer.ggml.scores", ARRAY), put_u32(b, m->scores_type),
            put_u64(b, m->n_scores);
        const float scores[] = {-2, m->second_score, -3, -4};
        for (uint64_t i = 0; i < m->n_scores; i++)
            put(b, &scores[i], m->scores_type == U8 ? 1 : 4);
    }
    if (m->n_types) {
        put_key(b, "tokenizer.ggml.token_type", ARRAY), put_u32(b, m->types_type),
            put_u64(b, m->n_types);
        const int32_t types[] = {1, m->second_type, 1, 1};
        for (uint64_t i = 0; i < m->n_types; i++)
            if (m->types_type == STRING)
                put_string(b, "1");
            else
                put(b, &types[i], 4);
    }
    if (m->merge)
        put_key(b, "tokenizer.ggml.merges", ARRAY), put_u32(b, STRING), put_u64(b, 1),
            put_string(b, m->merge);
    if (m->rows_missing)
        put_tensor(b, "token_embd.weight", 2, (uint64_t[]){1, 2}, 0, 0);
    put_padding(b, 32);
    if (m->rows_missing)
        put_zeros(b, 32);
}

static int open_meta(const struct meta *m, struct zl_tokenizer **t, struct zl_error *err)
{
    struct bytes b = {0};
    struct zl_gguf *g = NULL;
    char path[128];
    put_meta(&b, m);
    snprintf(path, sizeof path, "%s/t.gguf", files_dir);
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    fclose(f);
    bytes_free(&b);
    *t = NULL;
    *err = (struct zl_error){0};
    int rc = zl_gguf_open(path, &g, err);
    if (!rc)
        rc = zl_tokenizer_open_gguf(g, t, err);
    zl_gguf_close(g);
    return rc;
}

static void gguf_pairs_merge_by_score_or_by_list(void **state)
{
    (void)state;
    struct zl_tokenizer *t;
    struct zl_error err;
    struct meta m = good_gpt2;
    if (open_meta(&m, &t, &err))
        fail_msg("%s", err.text);
    EXPECT(t, "aba", 0, 1, 0);
    zl_tokenizer_close(t);
    m = good_llama;
    if (open_meta(&m, &t, &err))
        fail_msg("%s", err.text);
    EXPECT(t, "ab", ZL_ENCODE_SPECIAL, 0,
           1); /* no token for the mark in front: nothing stands for it */
    zl_tokenizer_close(t);
}

static void wrong_types_in_gguf_metadata_are_refused(void **state)
{
    (void)state;
    struct meta m[20];
    const char *why[20];
    size_t n = 0;
#define CASE(base, sentence, ...)                                                                  \
    do {                                                                                           \
        m[n] = base;                                                                               \
        struct meta *c = &m[n];                                                                    \
        __VA_ARGS__;                                                                               \
        why[n++] = sentence;                                                                       \
    } while (0)
    CASE(good_llama, "tokenizer.ggml.scores", c->scores_type = U8);
    CASE(good_llama, "tokenizer.ggml.scores", c->scores_type = I32);
    CASE(good_llama, "scores has 2 entries, expected 3", c->n_scores = 2);
    CASE(good_llama, "score of token 1 is no finite number", c->second_score = NAN);
    CASE(good_llama, "score of token 1 is no finite number", c->second_score = INFINITY);
    CASE(good_llama, "tokenizer.ggml.token_type", c->types_type = STRING);
    CASE(good_llama, "tokenizer.ggml.token_type", c->types_type = F32);
    CASE(good_llama, "token_type has 4 entries, expected 3", c->n_types = 4);
    CASE(good_llama, "token 1 has type 77, expected 1 to 6", c->second_type = 77);
    CASE(good_llama, "tokens 0 and 1 have the same text \"a\"", c->second_token = "a");
    CASE(good_llama, "token 1 is no UTF-8 text", c->second_token = "\xff");
    CASE(good_llama, "tokenizer.ggml.bos_token_id", c->bos_is_text = true);
    CASE(good_llama, "bos_token_id is 3, but there are 3 tokens", c->bos = 3);
    CASE(good_llama, "tokens has 3 entries, but token_embd.weight has 2 rows",
         c->rows_missing = true);
    CASE(good_gpt2, "model \"bert\" is not supported", c->model = "bert");
    CASE(good_gpt2, "pre \"tekken-9\" is not supported", c->pre = "tekken-9");
    CASE(good_gpt2, "merge 0 needs the token \"ba\"", c->merge = "b a");
    CASE(good_gpt2, "merge 0 is no \"left right\"", c->merge = "ab");
    CASE(good_gpt2, "there is no tokenizer.ggml.merges", c->merge = NULL);
    for (size_t i = 0; i < n; i++) {
        struct zl_tokenizer *t;
        struct zl_error err;
        int rc = open_meta(&m[i], &t, &err);
        assert_null(t);
        expect_sentence(rc, &err, "t.gguf", why[i]);
    }
}

static void unsupported_models_are_named(void **state)
{
    const char *const *c = *state;
    char relative[256];
    struct zl_tokenizer *t = NULL;
    struct zl_error err = {0};
    snprintf(relative, sizeof relative, "golden/tokenizers/%s", c[0]);
    expect_sentence(zl_tokenizer_open_dir(zl_test_shared(relative), &t, &err), &err, c[0], c[1]);
}

int main(void)
{
    static const char *const wordpiece[] = {"tiny-wordpiece", "\"WordPiece\" is not supported"};
    static const char *const unigram[] = {"tiny-unigram", "\"Unigram\" is not supported"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_tokenizer_json_is_refused_with_a_sentence),
        cmocka_unit_test(deep_nesting_and_missing_files_are_refused),
        cmocka_unit_test(growth_by_replacing_is_bounded),
        cmocka_unit_test(files_beside_the_tokenizer_are_checked),
        cmocka_unit_test(a_pattern_that_explodes_is_an_error),
        cmocka_unit_test(gguf_pairs_merge_by_score_or_by_list),
        cmocka_unit_test(wrong_types_in_gguf_metadata_are_refused),
        {"unsupported-models-are-named-wordpiece", unsupported_models_are_named, NULL, NULL,
         (void *)wordpiece},
        {"unsupported-models-are-named-unigram", unsupported_models_are_named, NULL, NULL,
         (void *)unigram},
    };
    return cmocka_run_group_tests_name("tokenizer-files", tests, files_setup, files_teardown);
}
