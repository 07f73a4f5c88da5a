/*
 * Mutated tokenizer.json and GGUF tokenizers: refused with a sentence, or they encode and decode
 * without a fault. Then mutated texts through sound tokenizers: valid UTF-8 comes back byte for
 * byte from the byte-level one, and streaming gives what decoding gives. Usage: fuzz-tokenizer
 * [COUNT [FIRST]]
 */
#include "tests/fuzz/mutate.h"

#include "format/tokenizer_impl.h"
#include "tests/unit/gguf_bytes.h"
#include "tests/unit/tiny-tokenizer.h"

static const char *const words[] = {"\"",        "{",         "}",
                                    "[",         "]",         ",",
                                    ":",         "null",      "true",
                                    "-1",        "1e9",       "65536",
                                    "\\u0000",   "<0x41>",    "\"type\"",
                                    "ByteLevel", "Sequence",  "Fuse",
                                    "Strip",     "Replace",   "Metaspace",
                                    "\\\\s+",    "(?!\\\\S)", "(a|b)*",
                                    "<s>",       "a b",       "\xf0\x9f\x99\x82",
                                    NULL};

static const char *const texts[] = {"",
                                    "a",
                                    "hello  he l\n\n <s> x<|a|>",
                                    "\xf0\x9f\x99\x82\xc3\xa9 don't 123",
                                    "<0x41><s></s>\xe2\x96\x81\xe2\x96\x81y",
                                    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

/* Encode, decode, stream; true when the text came back. */
static bool round_trip(const struct zl_tokenizer *t, const char *text, size_t n, unsigned flags)
{
    struct zl_ids ids = {0};
    struct zl_error err = {0};
    char *out = NULL;
    size_t out_n = 0, piece_n;
    struct bytes streamed = {0};
    if (zl_tokenizer_encode(t, text, n, flags, &ids, &err)) {
        assert_true(err.code < 0 && err.text[0] && !strchr(err.text, '\n'));
        zl_ids_free(&ids);
        return false;
    }
    for (size_t i = 0; i < ids.n; i++)
        assert_non_null(zl_tokenizer_token(t, ids.id[i], NULL));
    assert_int_equal(zl_tokenizer_decode(t, ids.id, ids.n, false, &out, &out_n, &err), 0);
    struct zl_detokenizer *d = zl_detokenizer_new(t, false);
    for (size_t i = 0; i < ids.n; i++) {
        const char *piece = zl_detokenizer_push(d, ids.id[i], &piece_n);
        assert_int_equal(zl_utf8_check(piece, piece_n), piece_n);
        put(&streamed, piece, piece_n);
    }
    const char *rest = zl_detokenizer_finish(d, &piece_n);
    put(&streamed, rest, piece_n);
    assert_int_equal(streamed.n, out_n);
    assert_memory_equal(streamed.p ? streamed.p : (unsigned char *)"", out, out_n);
    bool same = out_n == n && memcmp(out, text, n) == 0;
    zl_detokenizer_free(d);
    bytes_free(&streamed);
    free(out);
    zl_ids_free(&ids);
    return same;
}

static void visit(struct zl_tokenizer *t, int rc, const struct zl_error *err, uint64_t *opened)
{
    if (rc) {
        assert_true(err->code == rc && err->text[0] && !strchr(err->text, '\n'));
        return;
    }
    ++*opened;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        round_trip(t, texts[i], strlen(texts[i]), (unsigned)i % 4);
    zl_tokenizer_close(t);
}

/* Put some other value in the place of the n-th value of a tree, counted in order. */
static void replace_value(struct mutator *m, json_t *v, long *n)
{
    static const char *const values[] = {"null",
                                         "true",
                                         "0",
                                         "-1",
                                         "1",
                                         "97",
                                         "300",
                                         "70000",
                                         "4294967296",
                                         "0.5",
                                         "\"\"",
                                         "\"a\"",
                                         "\"b\"",
                                         "\"aa\"",
                                         "\"a a\"",
                                         "\" \"",
                                         "\"ByteLevel\"",
                                         "\"Metaspace\"",
                                         "\"NFKD\"",
                                         "\"Fuse\"",
                                         "\"(a|b)*\"",
                                         "\"<s>\"",
                                         "[]",
                                         "{}",
                                         "[\"a\",\"a\"]",
                                         "[7]"};
    const char *key;
    json_t *child;
    void *next;
    size_t i;
    json_object_foreach_safe(v, next, key, child)
    {
        if ((*n)-- == 0)
            json_object_set_new(v, key, tiny_json(values[draw(m, sizeof values / sizeof *values)]));
        else if (*n >= 0)
            replace_value(m, child, n);
        if (*n < 0)
            return;
    }
    json_array_foreach(v, i, child)
    {
        if ((*n)-- == 0)
            json_array_set_new(v, i, tiny_json(values[draw(m, sizeof values / sizeof *values)]));
        else if (*n >= 0)
            replace_value(m, child, n);
        if (*n < 0)
            return;
    }
}

/* A mutant that is valid JSON: one or two values are others. Most of a file is its list of bytes,
 * so that counts as a part only. */
static void tree_mutant(struct mutator *m, const struct bytes *file, uint64_t i)
{
    json_t *root = json_loadb((const char *)file->p, file->n, 0, NULL);
    json_t *model = json_object_get(root, "model"),
           *vocab = json_incref(json_object_get(model, "vocab"));
    m->seed = i;
    m->draws = 0;
    if (draw(m, 4))
        json_object_set_new(model, "vocab", json_integer(0));
    for (uint64_t times = 1 + draw(m, 2); times; times--) {
        long n = (long)draw(m, 60);
        replace_value(m, root, &n);
    }
    model = json_object_get(root, "model");
    if (json_is_integer(json_object_get(model, "vocab")))
        json_object_set(model, "vocab", vocab);
    char *text = json_dumps(root, JSON_COMPACT);
    assert_int_equal(ftruncate(m->fd, 0), 0);
    assert_int_equal(pwrite(m->fd, text, strlen(text), 0), strlen(text));
    free(text);
    json_decref(vocab);
    json_decref(root);
}

static struct bytes json_seed(int which)
{
    json_t *root = which ? tiny_spm() : tiny_byte_level();
    if (!which) {
        tiny_merge(root, "h", "e");
        tiny_merge(root, "l", "l");
        tiny_merge(root, "he", "ll");
        tiny_added(root, tiny_piece(root, "<s>"), "<s>", FLAGS("special", "lstrip"));
        tiny_added(root, tiny_piece(root, "<|a|>"), "<|a|>", FLAGS("normalized", "single_word"));
        json_object_set_new(root, "normalizer", tiny_json("{\"type\":\"NFC\"}"));
        json_object_set_new(root, "pre_tokenizer",
                            tiny_json("{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":"
                                      "\"Split\",\"pattern\":{\"Regex\":"
                                      "\"[^\\\\r\\\\n\\\\p{L}]?\\\\p{L}+|\\\\p{N}{1,3}|\\\\s+(?!"
                                      "\\\\S)|\\\\s+\"},\"behavior\":"
                                      "\"Isolated\"},{\"type\":\"ByteLevel\",\"add_prefix_space\":"
                                      "false,\"use_regex\":false}]}"));
    } else {
        tiny_piece(root, SPACE_MARK);
        tiny_piece(root, "a");
        tiny_merge(root, "a", "a");
        tiny_merge(root, SPACE_MARK, "a");
    }
    char *text = json_dumps(root, JSON_COMPACT);
    struct bytes b = {0};
    put_text(&b, text);
    free(text);
    json_decref(root);
    return b;
}

static struct bytes gguf_seed(void)
{
    struct bytes b = {0};
    put_header(&b, 3, 0, 7);
    put_key(&b, "tokenizer.ggml.model", STRING), put_string(&b, "llama");
    put_key(&b, "tokenizer.ggml.tokens", ARRAY), put_u32(&b, STRING), put_u64(&b, 6);
    put_string(&b, "<unk>"), put_string(&b, "<s>"), put_string(&b, "<0x41>");
    put_string(&b, "a"), put_string(&b, "aa"), put_string(&b, SPACE_MARK);
    put_key(&b, "tokenizer.ggml.scores", ARRAY), put_u32(&b, F32), put_u64(&b, 6);
    put(&b, (float[]){0, 0, 0, -1, -2, -3}, 24);
    put_key(&b, "tokenizer.ggml.token_type", ARRAY), put_u32(&b, I32), put_u64(&b, 6);
    put(&b, (int32_t[]){2, 3, 6, 1, 1, 1}, 24);
    put_key(&b, "tokenizer.ggml.bos_token_id", U32), put_u32(&b, 1);
    put_key(&b, "tokenizer.ggml.add_space_prefix", BOOL), put(&b, "\1", 1);
    put_key(&b, "tokenizer.chat_template", STRING), put_string(&b, "{% x %}");
    put_padding(&b, 32);
    return b;
}

int main(int argc, char **argv)
{
    uint64_t first, end, opened[4] = {0}, same = 0;
    struct mutator m;
    struct bytes seed[] = {json_seed(0), json_seed(1), gguf_seed()};
    fuzz_range(argc, argv, &first, &end);
    if (argc < 2)
        end = first + 8000;
    mutator_init(&m, words);
    for (uint64_t i = first; i < end; i++) {
        struct zl_tokenizer *t = NULL;
        struct zl_gguf *g = NULL;
        struct zl_error err = {0};
        const size_t kind = i % 4; /* 3: a tree of one of the JSON files */
        if (kind < 3)
            mutant(&m, &seed[kind], i, -1);
        else
            tree_mutant(&m, &seed[i / 4 % 2], i);
        int rc = kind != 2 ? zl_tok_read_json(m.path, &t, &err) : zl_gguf_open(m.path, &g, &err);
        if (kind == 2 && !rc)
            rc = zl_tokenizer_open_gguf(g, &t, &err);
        zl_gguf_close(g);
        visit(t, rc, &err, &opened[kind]);
    }
    json_t *root = tiny_byte_level();
    tiny_merge(root, "h", "e");
    tiny_added(root, tiny_piece(root, "<s>"), "<s>", FLAGS("special"));
    struct zl_tokenizer *t = tiny_open(root, NULL), *spm = tiny_open(tiny_spm(), NULL);
    for (uint64_t i = first; i < end; i++) {
        struct bytes b = {0};
        put_text(&b,
                 "hello  world, he said:\t\"<s>\" 123 \xc3\xa9\xe6\x97\xa5\xf0\x9f\x99\x82\n\n  ");
        m.seed = i;
        m.draws = 0;
        for (uint64_t k = 0; k < 1 + i % 6; k++)
            mutate_once(&m, &b);
        bool valid = zl_utf8_check((char *)b.p, b.n) == b.n;
        bool back = round_trip(t, (char *)b.p, b.n, i & 1 ? ZL_ENCODE_PLAIN : 0);
        assert_int_equal(back, valid);
        same += back;
        round_trip(spm, (char *)b.p, b.n, 0);
        bytes_free(&b);
    }
    printf("fuzz-tokenizer: %llu mutants, opened %llu %llu %llu %llu; %llu texts came back\n",
           (unsigned long long)(end - first), (unsigned long long)opened[0],
           (unsigned long long)opened[1], (unsigned long long)opened[2],
           (unsigned long long)opened[3], (unsigned long long)same);
    zl_tokenizer_close(t);
    zl_tokenizer_close(spm);
    for (int k = 0; k < 3; k++)
        bytes_free(&seed[k]);
    return 0;
}
