/* A tiny model for tests: see tiny.h. */
#define _GNU_SOURCE 1
#include "tests/unit/test.h"

#include <ftw.h>
#include <jansson.h>
#include <sys/stat.h>

#include "base/rng.h"
#include "format/tensors.h"
#include "tests/tiny.h"

enum { D = 32, HEADS = 4, KV = 2, HEAD_DIM = 8, FFN = 48, VOCAB = 260 };

const char *tiny_path(const struct tiny *t, const char *name)
{
    static char path[4][600];
    static unsigned turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", t->dir, name);
    return p;
}

static void write_json(const char *path, json_t *o)
{
    assert_int_equal(json_dump_file(o, path, JSON_INDENT(1)), 0);
    json_decref(o);
}

static void write_config(const char *dir, uint32_t layers)
{
    char path[512];
    snprintf(path, sizeof path, "%s/config.json", dir);
    write_json(path, json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:b, s:i, s:s, s:i, s:i}", "model_type", "llama",
                               "hidden_size", D, "intermediate_size", FFN, "num_hidden_layers", (int)layers,
                               "num_attention_heads", HEADS, "num_key_value_heads", KV, "vocab_size", VOCAB,
                               "rms_norm_eps", 1e-5, "rope_theta", 10000.0, "tie_word_embeddings", 1,
                               "max_position_embeddings", 512, "hidden_act", "silu", "bos_token_id", 256,
                               "eos_token_id", 257));
}

/* GPT-2's way of writing a byte as a printable character. */
static void byte_name(unsigned b, char out[4])
{
    unsigned code = b;
    if (!((b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174)) {
        unsigned n = 0;
        for (unsigned i = 0; i < b; i++)
            n += !((i >= 33 && i <= 126) || (i >= 161 && i <= 172) || i >= 174);
        code = 256 + n;
    }
    if (code < 128)
        snprintf(out, 4, "%c", (int)code);
    else
        snprintf(out, 4, "%c%c", (int)(0xC0 | code >> 6), (int)(0x80 | (code & 63)));
}

static void write_tokenizer(const char *dir)
{
    char path[512], name[4];
    json_t *vocab = json_object(), *added = json_array();
    for (unsigned b = 0; b < 256; b++) {
        byte_name(b, name);
        json_object_set_new(vocab, name, json_integer((json_int_t)b));
    }
    static const char *const special[] = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"};
    for (int i = 0; i < 4; i++)
        json_array_append_new(added, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id", 256 + i, "content", special[i],
                                               "single_word", 0, "lstrip", 0, "rstrip", 0, "normalized", 0, "special", 1));
    snprintf(path, sizeof path, "%s/tokenizer.json", dir);
    write_json(path, json_pack("{s:s, s:n, s:n, s:o, s:n, s:{s:s, s:b, s:b, s:b}, s:n, s:{s:s, s:b, s:b, s:b}, "
                               "s:{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:o, s:[]}}",
                               "version", "1.0", "truncation", "padding", "added_tokens", added, "normalizer",
                               "pre_tokenizer", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex", 1,
                               "post_processor", "decoder", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1,
                               "use_regex", 1, "model", "type", "BPE", "dropout", "unk_token", "continuing_subword_prefix",
                               "end_of_word_suffix", "fuse_unk", 0, "byte_fallback", 0, "vocab", vocab, "merges"));
    snprintf(path, sizeof path, "%s/tokenizer_config.json", dir);
    write_json(path, json_pack("{s:s, s:s, s:b}", "eos_token", "</s>", "tokenizer_class", "PreTrainedTokenizerFast", "add_bos_token",
                               0));
}

/* One hidden dimension that only the token '@' sets, that no layer writes to and that every MLP multiplies by so much that the products of '@'
 * overflow: finite numbers everywhere until a row with that token comes. Adapters on q_proj and v_proj keep it so. */
static void poison(const char *name, float *data, uint32_t out, uint32_t in)
{
    const bool writes = strstr(name, "o_proj") || strstr(name, "down_proj"), reads = strstr(name, "gate_proj") || strstr(name, "up_proj");
    for (uint32_t j = 0; writes && j < in; j++)
        data[j] = 0;
    for (uint32_t i = 0; reads && i < out; i++)
        data[(size_t)i * in] = 1e25f;
    for (uint32_t i = 0; strstr(name, "embed_tokens") && i < out; i++)
        data[(size_t)i * in] = i == '@' ? 1 : 0;
}

static void write_weights(const char *dir, uint32_t layers, bool poisoned)
{
    static const struct {
        const char *name;
        uint32_t out, in;
    } parts[] = {
        {"self_attn.q_proj", HEADS * HEAD_DIM, D}, {"self_attn.k_proj", KV * HEAD_DIM, D},
        {"self_attn.v_proj", KV * HEAD_DIM, D},    {"self_attn.o_proj", D, HEADS * HEAD_DIM},
        {"mlp.gate_proj", FFN, D},                 {"mlp.up_proj", FFN, D},
        {"mlp.down_proj", D, FFN},                 {"input_layernorm", D, 0},
        {"post_attention_layernorm", D, 0},
    };
    const size_t each = sizeof parts / sizeof parts[0], n = layers * each + 2;
    struct zl_safetensors_entry *e = calloc(n, sizeof *e);
    char(*names)[96] = calloc(n, sizeof *names);
    float **data = calloc(n, sizeof *data);
    for (size_t i = 0; i < n; i++) {
        uint32_t out = D, in = 0;
        if (i < layers * each) {
            snprintf(names[i], sizeof names[i], "model.layers.%u.%s.weight", (unsigned)(i / each), parts[i % each].name);
            out = parts[i % each].out;
            in = parts[i % each].in;
        } else if (i == layers * each) {
            snprintf(names[i], sizeof names[i], "model.norm.weight");
        } else {
            snprintf(names[i], sizeof names[i], "model.embed_tokens.weight");
            out = VOCAB;
            in = D;
        }
        const uint64_t size = (uint64_t)out * (in ? in : 1);
        data[i] = malloc(size * sizeof(float));
        for (uint64_t j = 0; j < size; j++)
            data[i][j] = in ? 0.15f * zl_random_normal(7, ZL_STREAM_TEST, (uint32_t)i, j)
                            : 1.0f + 0.1f * zl_random_normal(7, ZL_STREAM_TEST, (uint32_t)i, j);
        if (poisoned)
            poison(names[i], data[i], out, in);
        e[i] = (struct zl_safetensors_entry){.name = names[i], .n_dims = in ? 2 : 1, .shape = {out, in}, .data = data[i]};
    }
    char path[512];
    struct zl_error err = {0};
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (zl_safetensors_write(path, e, n, NULL, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < n; i++)
        free(data[i]);
    free(data);
    free(names);
    free(e);
}

/* "Count from 3: three four five": regular enough for a tiny model to move on. */
static void write_rows(const char *path, uint32_t first, uint32_t rows)
{
    static const char *const words[] = {"zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (uint32_t i = first; i < first + rows; i++) {
        uint32_t from = (uint32_t)(zl_random_u64(3, ZL_STREAM_TEST, 99, i) % 10), n = 1 + i % 5;
        fprintf(f, "{\"prompt\": \"Count %u from %u:\", \"completion\": \"", n, from);
        for (uint32_t j = 0; j < n; j++)
            fprintf(f, " %s", words[(from + j) % 10]);
        fprintf(f, "\"}\n");
    }
    fclose(f);
}

void tiny_make(struct tiny *t, uint32_t layers, uint32_t rows)
{
    tiny_make_poisoned(t, layers, rows, false);
}

void tiny_make_poisoned(struct tiny *t, uint32_t layers, uint32_t rows, bool poisoned)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(t->dir, sizeof t->dir, "%s/zerolock-test-XXXXXX", tmp && strlen(tmp) < 200 ? tmp : "/tmp");
    assert_non_null(mkdtemp(t->dir));
    snprintf(t->model, sizeof t->model, "%s/model", t->dir);
    snprintf(t->data, sizeof t->data, "%s/train.jsonl", t->dir);
    snprintf(t->held_out, sizeof t->held_out, "%s/held-out.jsonl", t->dir);
    assert_int_equal(mkdir(t->model, 0777), 0);
    write_config(t->model, layers);
    write_tokenizer(t->model);
    write_weights(t->model, layers, poisoned);
    write_rows(t->data, 0, rows);
    write_rows(t->held_out, 100000, 12);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void tiny_remove(struct tiny *t)
{
    nftw(t->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
