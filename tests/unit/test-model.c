/*
 * Opening a base model: tensors found under the names that exporters use, or named when they are missing; heads, biases, vocabularies
 * and rotary tables as the configuration says.
 */
#include "tests/unit/gguf_bytes.h"

#include <jansson.h>
#include <math.h>

#include "base/log.h"
#include "model/model.h"
#include "tests/variant.h"
#include "train/corpus.h"

enum { LAYERS = 2, D = 32, VOCAB = 260, T = 24 };

static struct tiny tiny;

static int make_tiny(void **state)
{
    (void)state;
    tiny_make(&tiny, LAYERS, 4);
    return 0;
}

static int remove_tiny(void **state)
{
    (void)state;
    tiny_remove(&tiny);
    return 0;
}

/* The model's loss on a fixed text and, where out is not NULL, its last hidden states [T][D]. */
static double loss_of(const struct zl_model *m, float *out)
{
    struct batch batch;
    struct zl_block b;
    struct zl_loss loss;
    struct zl_error err = {0};
    const struct zl_block_spec spec = {.n_own = LAYERS, .has_loss = true, .tokens = T, .longest = T};
    batch_make(&batch, m, (int64_t[]){T}, 1, VOCAB, 5);
    if (zl_block_open(&b, m, &spec, 1, &err))
        fail_msg("%s", err.text);
    const float *y = zl_block_forward(&b, 0, &batch.tok, batch.x);
    if (out)
        memcpy(out, y, sizeof(float) * T * D);
    zl_block_loss(&b, 0, &batch.tok, batch.labels, 0, false, &loss);
    assert_int_equal(loss.n, T - 1);
    zl_block_close(&b);
    batch_free(&batch);
    return loss.sum;
}

static double open_and_loss(struct zl_model *m)
{
    variant_open(&tiny, 64, m);
    double loss = loss_of(m, NULL);
    assert_true(isfinite(loss));
    return loss;
}

static void assert_refused(const char *const *words, size_t n)
{
    struct zl_model m;
    struct zl_error err = {0};
    assert_rejected(zl_model_open(tiny.model, 64, &m, &err), &err, words, n);
}
#define ASSERT_REFUSED(...) assert_refused((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

/* ---- the head ---- */

static const float *other_head;

static void add_head(struct variant_tensors *v, const void *arg)
{
    (void)arg;
    v->e[v->n++] = (struct zl_safetensors_entry){.name = "lm_head.weight", .n_dims = 2, .shape = {VOCAB, D}, .data = other_head};
}

static void tied_embeddings_need_no_head(void **state)
{
    (void)state;
    struct zl_model m;
    static float head[VOCAB * D];
    const double tied = open_and_loss(&m);
    assert_ptr_equal(m.head.data, m.embed.data);
    assert_int_equal(m.n_unused, 0);
    for (int i = 0; i < VOCAB * D; i++)
        head[i] = 0.1f * sinf((float)i);
    zl_model_close(&m);

    /* A tied model that stores a head all the same: the configuration decides, and it is no stranger. */
    other_head = head;
    variant_weights(&tiny, add_head, NULL);
    assert_true(open_and_loss(&m) == tied);
    assert_ptr_equal(m.head.data, m.embed.data);
    assert_int_equal(m.n_unused, 0);
    zl_model_close(&m);

    variant_config(&tiny, "{\"tie_word_embeddings\": false}");
    assert_true(open_and_loss(&m) != tied);
    assert_ptr_not_equal(m.head.data, m.embed.data);
    zl_model_close(&m);
}

static void an_untied_head_may_not_be_missing(void **state)
{
    (void)state;
    variant_config(&tiny, "{\"tie_word_embeddings\": false}");
    ASSERT_REFUSED(tiny.model, "lm_head.weight", "missing");
    variant_config(&tiny, "{\"tie_word_embeddings\": null}"); /* the family's default is no */
    ASSERT_REFUSED(tiny.model, "lm_head.weight", "missing");
}

/* ---- vocabularies ---- */

static void set_rows(struct variant_tensors *v, const void *arg)
{
    static float table[300 * D];
    struct zl_safetensors_entry *e = variant_find(v, "model.embed_tokens.weight");
    const uint64_t rows = *(const uint64_t *)arg;
    memcpy(table, e->data, sizeof(float) * D * (rows < VOCAB ? rows : VOCAB));
    e->shape[0] = rows;
    e->data = table; /* rows beyond the tokenizer's are zeros */
}

static void rows_beyond_the_tokenizer_take_part_in_the_softmax(void **state)
{
    (void)state;
    struct zl_model m;
    struct zl_tokenizer *tokenizer;
    struct zl_error err = {0};
    const double exact = open_and_loss(&m);
    zl_model_close(&m);
    variant_weights(&tiny, set_rows, &(uint64_t){300});
    ASSERT_REFUSED("model.embed_tokens.weight", "[300][32]", "[260][32]"); /* the configuration says otherwise */
    variant_weights(&tiny, set_rows, &(uint64_t){0});
    ASSERT_REFUSED("model.embed_tokens.weight", "[0][32]", "[260][32]");
    variant_weights(&tiny, set_rows, &(uint64_t){300});
    variant_config(&tiny, "{\"vocab_size\": 300}");
    const double padded = open_and_loss(&m); /* 40 more logits of 0 in each denominator */
    print_message("  loss %.6f with 40 more rows, %.6f without\n", padded, exact);
    assert_true(padded > exact + 0.1);
    assert_int_equal(zl_model_tokenizer(&m, &tokenizer, &err), 0);
    assert_int_equal(zl_tokenizer_size(tokenizer), VOCAB);
    zl_tokenizer_close(tokenizer);
    zl_model_close(&m);
}

static void token_ids_beyond_the_embedding_are_refused(void **state)
{
    (void)state;
    struct zl_model m;
    struct zl_tokenizer *tokenizer = NULL;
    struct zl_error err = {0};
    variant_weights(&tiny, set_rows, &(uint64_t){250});
    variant_config(&tiny, "{\"vocab_size\": 250}");
    variant_open(&tiny, 64, &m);
    ASSERT_REJECTED(zl_model_tokenizer(&m, &tokenizer, &err), &err, tiny.model, "259", "250");
    print_message("  %s\n", err.text);
    zl_model_close(&m);
}

static void silence(struct variant_tensors *v, const void *arg)
{
    static float table[VOCAB * D];
    struct zl_safetensors_entry *e = variant_find(v, "model.embed_tokens.weight");
    memcpy(table, e->data, sizeof table);
    for (const int *id = arg; *id >= 0; id++)
        memset(table + *id * D, 0, sizeof(float) * D);
    e->data = table;
}

static void note_down(void *context, bool warning, const char *text)
{
    char *said = context;
    snprintf(said + strlen(said), 4096 - strlen(said), "  %s%s\n", warning ? "warning: " : "", text);
}

static void rows_of_zeros_are_named_and_stay_finite(void **state)
{
    (void)state;
    static const int ids[] = {'o', 257, 258, -1}; /* used by the data: o and </s>; not <|im_start|> */
    variant_weights(&tiny, silence, ids);
    struct zl_corpus c;
    struct zl_error err = {0};
    const char *data[] = {tiny.data};
    const struct zl_corpus_request r = {.model = tiny.model, .data = data, .n_data = 1, .max_length = 64, .quiet = true};
    char said[4096] = "";
    zl_log_thread_to(note_down, said);
    const int rc = zl_corpus_open(&c, &r, &err);
    zl_log_thread_to(NULL, NULL);
    assert_accepted(rc, &err);
    print_message("%s", said);
    assert_non_null(strstr(said, "token 111 \"o\""));
    assert_non_null(strstr(said, "token 257 \"</s>\""));
    assert_null(strstr(said, "258"));

    /* The first token of a sequence being such a row: a norm over zeros, attention over itself alone. */
    struct batch batch;
    struct zl_block b;
    struct zl_loss loss;
    const struct zl_lora_spec lora = {.rank = 2, .targets = (1 << ZL_LINEARS) - 1, .alpha = 2};
    const struct zl_block_spec spec = {.n_own = LAYERS, .train = true, .has_loss = true, .lora = &lora, .tokens = 8, .longest = 8};
    batch_make(&batch, &c.model, (int64_t[]){8}, 1, VOCAB, 1);
    memset(batch.x, 0, sizeof(float) * 3 * D);
    assert_accepted(zl_block_open(&b, &c.model, &spec, 1, &err), &err);
    zl_block_forward(&b, 0, &batch.tok, batch.x);
    zl_block_loss(&b, 0, &batch.tok, batch.labels, 1, true, &loss);
    const struct zl_optimizer o = {.lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .clip = 1};
    assert_true(isfinite(loss.sum) && isfinite(zl_block_update(&b, &o, 1)));
    zl_block_close(&b);
    batch_free(&batch);
    zl_corpus_close(&c);
}

/* ---- names ---- */

static void drop(struct variant_tensors *v, const void *arg)
{
    variant_drop(v, arg);
}

static void each_missing_tensor_is_named(void **state)
{
    (void)state;
    static const char *const names[] = {
        "model.embed_tokens.weight",                    "model.norm.weight",
        "model.layers.0.self_attn.q_proj.weight",       "model.layers.0.self_attn.k_proj.weight",
        "model.layers.1.self_attn.v_proj.weight",       "model.layers.1.self_attn.o_proj.weight",
        "model.layers.0.mlp.gate_proj.weight",          "model.layers.1.mlp.up_proj.weight",
        "model.layers.1.mlp.down_proj.weight",          "model.layers.0.input_layernorm.weight",
        "model.layers.1.post_attention_layernorm.weight",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        tiny_remove(&tiny);
        make_tiny(NULL);
        variant_weights(&tiny, drop, names[i]);
        ASSERT_REFUSED(tiny.model, names[i], "missing");
    }
}

struct prefix {
    const char *add, *strip;
};

static void rename_all(struct variant_tensors *v, const void *arg)
{
    static char names[64][160];
    const struct prefix *p = arg;
    for (size_t i = 0; i < v->n; i++) {
        const char *name = v->e[i].name;
        const size_t strip = strlen(p->strip);
        snprintf(names[i], sizeof names[i], "%s%s", p->add, strncmp(name, p->strip, strip) == 0 ? name + strip : name);
        v->e[i].name = names[i];
    }
}

static void known_prefixes_are_accepted_and_others_refused(void **state)
{
    (void)state;
    static const struct prefix known[] = {
        {"", "model."}, {"model.", ""}, {"base_model.model.", ""}, {"language_model.", ""}, {"module.", ""}, {"_orig_mod.", ""}};
    struct zl_model m;
    const double want = open_and_loss(&m);
    zl_model_close(&m);
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        tiny_remove(&tiny);
        make_tiny(NULL);
        variant_weights(&tiny, rename_all, &known[i]);
        assert_true(open_and_loss(&m) == want);
        assert_int_equal(m.n_unused, 0);
        zl_model_close(&m);
    }
    tiny_remove(&tiny);
    make_tiny(NULL);
    variant_weights(&tiny, rename_all, &(struct prefix){"backbone.", "model."});
    ASSERT_REFUSED("model.embed_tokens.weight", "missing");
}

static void add_strangers(struct variant_tensors *v, const void *arg)
{
    static const char *const names[] = {"model.layers.2.mlp.up_proj.weight", "model.layers.0.self_attn.rotary_emb.inv_freq",
                                        "model.layers.0.self_attn.q_proj.bias"};
    static const float zeros[32];
    (void)arg;
    for (int i = 0; i < 3; i++)
        v->e[v->n++] = (struct zl_safetensors_entry){.name = names[i], .n_dims = 1, .shape = {32}, .data = zeros};
}

static void unused_tensors_are_listed(void **state)
{
    (void)state;
    struct zl_model m;
    const double want = open_and_loss(&m);
    zl_model_close(&m);
    variant_weights(&tiny, add_strangers, NULL);
    assert_true(open_and_loss(&m) == want);
    assert_int_equal(m.n_unused, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(strstr(m.unused[i], "layers.2") || strstr(m.unused[i], "inv_freq") || strstr(m.unused[i], "bias"));
    zl_model_close(&m);

    char command[1400];
    const char *build = getenv("ZL_BUILDDIR");
    snprintf(command, sizeof command, "%s/zerolock", build ? build : ".");
    if (access(command, X_OK) != 0) {
        print_message("  without the program %s, what it prints is not looked at\n", command);
        return;
    }
    snprintf(command, sizeof command, "'%s/zerolock' inspect '%s'", build ? build : ".", tiny.model);
    char said[8192] = "";
    FILE *p = popen(command, "r");
    said[fread(said, 1, sizeof said - 1, p)] = '\0';
    assert_int_equal(pclose(p), 0);
    assert_non_null(strstr(said, "unused"));
    assert_non_null(strstr(said, "model.layers.2.mlp.up_proj.weight"));
    assert_non_null(strstr(said, "model.layers.0.self_attn.rotary_emb.inv_freq"));
}

/* ---- shapes, types, biases ---- */

static void transpose(struct variant_tensors *v, const void *arg)
{
    struct zl_safetensors_entry *e = variant_find(v, arg);
    const uint64_t rows = e->shape[0];
    e->shape[0] = e->shape[1];
    e->shape[1] = rows;
}

static void flatten(struct variant_tensors *v, const void *arg)
{
    struct zl_safetensors_entry *e = variant_find(v, arg);
    e->shape[0] *= e->shape[1];
    e->n_dims = 1;
}

/* In the header of model.safetensors the tensor's F32 becomes I32, of the same size. */
static void make_integers(const char *name)
{
    char path[400], quoted[100], header[64 << 10];
    snprintf(path, sizeof path, "%s/model.safetensors", tiny.model);
    FILE *f = fopen(path, "r+b");
    const size_t n = fread(header, 1, sizeof header - 1, f);
    header[n] = '\0';
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    char *entry = memmem(header, n, quoted, strlen(quoted)), *at = entry ? strstr(entry, "F32") : NULL;
    assert_non_null(at);
    fseek(f, at - header, SEEK_SET);
    fputc('I', f);
    fclose(f);
}

static void split_weights(void)
{
    char path[400];
    struct zl_tensors *whole;
    struct zl_error err = {0};
    snprintf(path, sizeof path, "%s/model.safetensors", tiny.model);
    assert_accepted(zl_safetensors_open(path, &whole, &err), &err);
    json_t *map = json_object();
    for (uint32_t part = 0; part < 2; part++) {
        struct zl_safetensors_entry e[64];
        char name[64];
        size_t n = 0;
        snprintf(name, sizeof name, "model-0000%u-of-00002.safetensors", part + 1);
        for (size_t i = part; i < zl_tensors_count(whole); i += 2) {
            const struct zl_named_tensor *t = zl_tensors_at(whole, i);
            e[n] = (struct zl_safetensors_entry){.name = t->name, .n_dims = t->t.n_dims, .data = t->t.data};
            memcpy(e[n++].shape, t->t.shape, sizeof e[0].shape);
            json_object_set_new(map, t->name, json_string(name));
        }
        snprintf(path, sizeof path, "%s/%s", tiny.model, name);
        assert_accepted(zl_safetensors_write(path, e, n, NULL, &err), &err);
    }
    zl_tensors_close(whole);
    snprintf(path, sizeof path, "%s/model.safetensors", tiny.model);
    assert_int_equal(unlink(path), 0);
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", tiny.model);
    json_t *index = json_pack("{s:{}, s:o}", "metadata", "weight_map", map);
    assert_int_equal(json_dump_file(index, path, 0), 0);
    json_decref(index);
}

static void wrong_shapes_and_types_name_the_tensor(void **state)
{
    (void)state;
    variant_weights(&tiny, transpose, "model.layers.1.mlp.down_proj.weight");
    ASSERT_REFUSED("model.layers.1.mlp.down_proj.weight", "[48][32]", "[32][48]");
    variant_weights(&tiny, transpose, "model.layers.1.mlp.down_proj.weight");
    variant_weights(&tiny, flatten, "model.layers.0.self_attn.q_proj.weight");
    ASSERT_REFUSED("model.layers.0.self_attn.q_proj.weight", "[1024]", "[32][32]");

    make_integers("model.embed_tokens.weight");
    ASSERT_REFUSED("model.safetensors", "model.embed_tokens.weight", "I32");
}

static void a_type_that_we_lack_matters_only_where_it_is_needed(void **state)
{
    (void)state;
    struct zl_model m;
    const double want = open_and_loss(&m);
    zl_model_close(&m);
    variant_weights(&tiny, add_strangers, NULL);
    make_integers("model.layers.2.mlp.up_proj.weight");
    assert_true(open_and_loss(&m) == want);
    assert_int_equal(m.n_unused, 3);
    zl_model_close(&m);
}

/* The weights in two files and an index, as exporters write what is too large for one. */
static void a_model_in_shards_is_the_same(void **state)
{
    (void)state;
    struct zl_model m;
    const double want = open_and_loss(&m);
    zl_model_close(&m);
    split_weights();
    assert_true(open_and_loss(&m) == want);
    assert_int_equal(m.n_unused, 0);
    zl_model_close(&m);
    char path[400];
    snprintf(path, sizeof path, "%s/model-00002-of-00002.safetensors", tiny.model);
    assert_int_equal(unlink(path), 0);
    ASSERT_REFUSED("model-00002-of-00002.safetensors");
}

static void add_biases(struct variant_tensors *v, const void *arg)
{
    static const struct {
        const char *name;
        uint64_t n;
    } biases[] = {{"q_proj", 32}, {"k_proj", 16}, {"v_proj", 16}, {"o_proj", 32}};
    static char names[8][80];
    static float values[32];
    (void)arg;
    for (int i = 0; i < 32; i++)
        values[i] = 0.1f * (float)(i % 5 - 2);
    for (int i = 0; i < 8; i++) {
        snprintf(names[i], sizeof names[i], "model.layers.%d.self_attn.%s.bias", i / 4, biases[i % 4].name);
        v->e[v->n++] = (struct zl_safetensors_entry){.name = names[i], .n_dims = 1, .shape = {biases[i % 4].n}, .data = values};
    }
}

static void biases_follow_the_configuration(void **state)
{
    (void)state;
    struct zl_model m;
    const double without = open_and_loss(&m);
    zl_model_close(&m);
    variant_config(&tiny, "{\"attention_bias\": true}");
    ASSERT_REFUSED("model.layers.0.self_attn.q_proj.bias", "missing");
    variant_weights(&tiny, add_biases, NULL);
    assert_true(open_and_loss(&m) != without);
    assert_int_equal(m.n_unused, 0);
    zl_model_close(&m);
    variant_config(&tiny, "{\"attention_bias\": false}");
    assert_true(open_and_loss(&m) == without);
    assert_int_equal(m.n_unused, 8);
    zl_model_close(&m);
}

/* ---- rotary tables ---- */

static void the_rotary_table_holds_beyond_the_original_context(void **state)
{
    (void)state;
    const double pi = 3.14159265358979323846;
    struct zl_model m;
    double worst = 0;
    variant_config(&tiny, "{\"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 32.0, \"low_freq_factor\": 1.0, "
                          "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 64}}");
    variant_open(&tiny, 2048, &m);
    assert_int_equal(m.positions, 2048);
    for (int p = 0; p < 2048; p++)
        for (int j = 0; j < 4; j++) {
            double f = pow(10000, -j / 4.0), turns = 64 * f / (2 * pi), s = (turns - 1) / 3;
            f = turns > 4 ? f : turns < 1 ? f / 32 : (1 - s) * f / 32 + s * f;
            worst = worse(worst, fabs((double)m.rope[(p * 4 + j) * 2] - cos(p * f)));
            worst = worse(worst, fabs((double)m.rope[(p * 4 + j) * 2 + 1] - sin(p * f)));
        }
    print_message("  cos and sin differ by %.2g <= 1e-7\n", worst);
    assert_true(worst <= 1e-7);
    zl_model_close(&m);
}

static void dynamic_scaling_is_refused_where_it_would_matter(void **state)
{
    (void)state;
    struct zl_model m;
    struct zl_error err = {0};
    variant_config(&tiny, "{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}"); /* of 512 positions */
    variant_open(&tiny, 512, &m);
    zl_model_close(&m);
    ASSERT_REJECTED(zl_model_open(tiny.model, 513, &m, &err), &err, "dynamic", "512");
}

/* ---- GGUF ---- */

static void put_gguf_key(struct bytes *b, const char *key, uint32_t v)
{
    put_key(b, key, U32), put_u32(b, v);
}

/* The tiny model as a GGUF file, rows of q and k permuted as converters do. freqs: rope_freqs.weight [4], or NULL. */
static void write_gguf(const char *path, const struct zl_model *m, const float *freqs, const char *without)
{
    const struct zl_arch *arch = m->config.arch;
    struct bytes b = {0}, data = {0};
    const size_t n = zl_tensors_count(m->tensors);
    put_header(&b, 3, n + (freqs != NULL) - (without != NULL), 9);
    put_key(&b, "general.architecture", STRING), put_string(&b, "llama");
    put_gguf_key(&b, "llama.embedding_length", D);
    put_gguf_key(&b, "llama.feed_forward_length", m->config.ffn);
    put_gguf_key(&b, "llama.block_count", LAYERS);
    put_gguf_key(&b, "llama.attention.head_count", m->config.heads);
    put_gguf_key(&b, "llama.attention.head_count_kv", m->config.kv_heads);
    put_gguf_key(&b, "llama.context_length", 512);
    put_key(&b, "llama.rope.freq_base", F32), put(&b, &(float){10000}, 4);
    put_key(&b, "llama.attention.layer_norm_rms_epsilon", F32), put(&b, &(float){1e-5f}, 4);
    for (size_t i = 0; i < n; i++) {
        const struct zl_named_tensor *t = zl_tensors_at(m->tensors, i);
        char hf[160], name[160];
        int role = -1;
        snprintf(name, sizeof name, "%s", strstr(t->name, "embed") ? arch->gguf_embed : arch->gguf_norm);
        for (unsigned l = 0; l < LAYERS; l++)
            for (int r = 0; r < ZL_B_Q; r++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
                snprintf(hf, sizeof hf, arch->roles[r].hf, l);
                if (strcmp(hf, t->name) == 0)
                    snprintf(name, sizeof name, arch->roles[role = r].gguf, l);
#pragma GCC diagnostic pop
            }
        if (without && strcmp(name, without) == 0)
            continue;
        uint64_t dims[2] = {t->t.shape[t->t.n_dims - 1], t->t.shape[0]};
        put_tensor(&b, name, (uint32_t)t->t.n_dims, dims, 0, data.n);
        const size_t row = dims[0] * sizeof(float);
        for (uint64_t i_out = 0; i_out < (t->t.n_dims == 2 ? dims[1] : 1); i_out++) {
            const uint64_t head = i_out / 8 * 8, j = i_out % 8;
            const uint64_t from = role == ZL_W_Q || role == ZL_W_K ? head + (j % 2 ? 4 + j / 2 : j / 2) : i_out;
            put(&data, (const char *)t->t.data + from * row, row);
        }
        put_padding(&data, 32);
    }
    if (freqs) {
        put_tensor(&b, arch->gguf_rope_freqs, 1, (uint64_t[]){4}, 0, data.n);
        put(&data, freqs, 16);
    }
    put_padding(&b, 32);
    put(&b, data.p, data.n);
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(b.p, 1, b.n, f), b.n);
    fclose(f);
    bytes_free(&b);
    bytes_free(&data);
}

static void the_same_model_from_gguf_computes_the_same(void **state)
{
    (void)state;
    struct zl_model m, g;
    struct zl_error err = {0};
    float want[T * D], got[T * D];
    double worst = 0;
    variant_config(&tiny, "{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 3.0}}");
    variant_open(&tiny, 64, &m);
    loss_of(&m, want);
    write_gguf(tiny_path(&tiny, "m.gguf"), &m, (float[]){3, 3, 3, 3}, NULL); /* linear scaling, said in the other way */
    assert_accepted(zl_model_open(tiny_path(&tiny, "m.gguf"), 64, &g, &err), &err);
    assert_true(g.config.rope_interleaved && g.config.tied);
    assert_int_equal(g.n_unused, 0);
    loss_of(&g, got);
    for (int i = 0; i < T * D; i++)
        worst = worse(worst, fabs((double)got[i] - (double)want[i]));
    print_message("  hidden states differ by %.2g <= 1e-4\n", worst);
    assert_true(worst <= 1e-4);
    zl_model_close(&g);
    write_gguf(tiny_path(&tiny, "m.gguf"), &m, NULL, "blk.1.ffn_up.weight");
    ASSERT_REJECTED(zl_model_open(tiny_path(&tiny, "m.gguf"), 64, &g, &err), &err, "m.gguf", "blk.1.ffn_up.weight", "missing");
    err = (struct zl_error){0};
    write_gguf(tiny_path(&tiny, "m.gguf"), &m, (float[]){1, 2, 0, 1}, NULL);
    ASSERT_REJECTED(zl_model_open(tiny_path(&tiny, "m.gguf"), 64, &g, &err), &err, "rope_freqs.weight");
    zl_model_close(&m);
}

#define TINY_TEST(f) cmocka_unit_test_setup_teardown(f, make_tiny, remove_tiny)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TINY_TEST(tied_embeddings_need_no_head),
        TINY_TEST(an_untied_head_may_not_be_missing),
        TINY_TEST(rows_beyond_the_tokenizer_take_part_in_the_softmax),
        TINY_TEST(token_ids_beyond_the_embedding_are_refused),
        TINY_TEST(rows_of_zeros_are_named_and_stay_finite),
        TINY_TEST(each_missing_tensor_is_named),
        TINY_TEST(known_prefixes_are_accepted_and_others_refused),
        TINY_TEST(unused_tensors_are_listed),
        TINY_TEST(wrong_shapes_and_types_name_the_tensor),
        TINY_TEST(a_type_that_we_lack_matters_only_where_it_is_needed),
        TINY_TEST(a_model_in_shards_is_the_same),
        TINY_TEST(biases_follow_the_configuration),
        TINY_TEST(the_rotary_table_holds_beyond_the_original_context),
        TINY_TEST(dynamic_scaling_is_refused_where_it_would_matter),
        TINY_TEST(the_same_model_from_gguf_computes_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
