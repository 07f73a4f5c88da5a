/*
 * A decoder's shape and rotary frequencies from config.json and from GGUF metadata: what is read, what is refused. Frequencies are held
 * to the formulas as they were published, written out here once more.
 */
#include "tests/unit/gguf_bytes.h"

#include <jansson.h>
#include <math.h>

#include "model/config.h"

static const double pi = 3.14159265358979323846;

/* A sound configuration with the keys of `changes` set; "-key" in it removes a key. */
static int read_changed(const char *changes, struct zl_config *c, struct zl_error *err)
{
    const char *key;
    json_t *value;
    json_t *config = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:i, s:s}", "model_type", "llama", "hidden_size", 512,
                               "intermediate_size", 1024, "num_hidden_layers", 2, "num_attention_heads", 8,
                               "num_key_value_heads", 2, "vocab_size", 1000, "rms_norm_eps", 1e-5, "rope_theta", 500000.0,
                               "max_position_embeddings", 131072, "hidden_act", "silu");
    json_t *change = json_loads(changes, 0, NULL);
    assert_non_null(change);
    json_object_foreach(change, key, value)
        if (key[0] == '-')
            json_object_del(config, key + 1);
        else
            json_object_set(config, key, value);
    char *text = json_dumps(config, 0);
    files_write_text("config.json", text);
    free(text);
    json_decref(change);
    json_decref(config);
    *err = (struct zl_error){0};
    return zl_config_from_hf(files_dir, c, err);
}

static void a_sound_configuration_is_read(void **state)
{
    (void)state;
    struct zl_config c;
    struct zl_error err;
    assert_accepted(read_changed("{}", &c, &err), &err);
    assert_int_equal(c.layers, 2);
    assert_int_equal(c.head_dim, 64);
    assert_int_equal(c.kv_heads, 2);
    assert_false(c.tied);
    assert_accepted(read_changed("{\"-num_key_value_heads\": 0, \"-rope_theta\": 0, \"-hidden_act\": 0, \"head_dim\": null, "
                                 "\"tie_word_embeddings\": true, \"attention_bias\": true}",
                                 &c, &err),
                    &err);
    assert_int_equal(c.kv_heads, 8);
    assert_int_equal(c.head_dim, 64);
    assert_true(c.tied && c.attention_bias);
    assert_true(c.rope.theta == 10000);
    assert_accepted(read_changed("{\"head_dim\": 80, \"num_attention_heads\": 7, \"num_key_value_heads\": 7}", &c, &err), &err);
    assert_int_equal(c.head_dim, 80); /* heads * head_dim need not be hidden_size */
}

static void missing_keys_are_named(void **state)
{
    (void)state;
    static const char *const keys[] = {"model_type",        "hidden_size",         "intermediate_size",
                                       "num_hidden_layers", "num_attention_heads", "vocab_size"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct zl_config c;
        struct zl_error err;
        char changes[64];
        snprintf(changes, sizeof changes, "{\"-%s\": 0}", keys[i]);
        ASSERT_REJECTED(read_changed(changes, &c, &err), &err, "config.json", keys[i], "missing");
    }
}

static void values_that_make_no_model_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *changes, *word;
    } faults[] = {
        {"{\"model_type\": 7}", "model_type"},
        {"{\"model_type\": \"mamba\"}", "mamba"},
        {"{\"hidden_size\": \"512\"}", "hidden_size"},
        {"{\"hidden_size\": 512.5}", "hidden_size"},
        {"{\"hidden_size\": -512}", "hidden_size"},
        {"{\"hidden_size\": 0}", "hidden size"},
        {"{\"hidden_size\": 4294967808}", "hidden_size"},
        {"{\"hidden_size\": 9223372036854775807}", "hidden_size"},
        {"{\"hidden_size\": 4294967288}", "hidden size"},
        {"{\"hidden_size\": 513}", "not a multiple"},
        {"{\"intermediate_size\": [1024]}", "intermediate_size"},
        {"{\"intermediate_size\": 4000000000}", "MLP"},
        {"{\"num_hidden_layers\": 0}", "layers"},
        {"{\"num_hidden_layers\": 1000000}", "layers"},
        {"{\"num_attention_heads\": 0}", "num_attention_heads"},
        {"{\"num_attention_heads\": null}", "num_attention_heads"},
        {"{\"num_key_value_heads\": 3}", "multiple"},
        {"{\"num_key_value_heads\": 0}", "key/value heads"},
        {"{\"head_dim\": 63}", "odd"},
        {"{\"head_dim\": 0}", "head size"},
        {"{\"head_dim\": 512}", "head size"},
        {"{\"vocab_size\": true}", "vocab_size"},
        {"{\"vocab_size\": 1000000000}", "vocabulary"},
        {"{\"max_position_embeddings\": \"2k\"}", "max_position_embeddings"},
        {"{\"rms_norm_eps\": \"1e-5\"}", "rms_norm_eps"},
        {"{\"rms_norm_eps\": 0}", "epsilon"},
        {"{\"rms_norm_eps\": -1e-5}", "epsilon"},
        {"{\"rms_norm_eps\": 1e300}", "epsilon"},
        {"{\"tie_word_embeddings\": 1}", "tie_word_embeddings"},
        {"{\"mlp_bias\": true}", "mlp_bias"},
        {"{\"hidden_act\": \"gelu\"}", "hidden_act"},
        {"{\"rope_theta\": \"many\"}", "rope_theta"},
        {"{\"rope_theta\": 0}", "rope_theta"},
        {"{\"rope_theta\": -10000}", "rope_theta"},
        {"{\"partial_rotary_factor\": 0.5}", "partial_rotary_factor"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct zl_config c;
        struct zl_error err;
        ASSERT_REJECTED(read_changed(faults[i].changes, &c, &err), &err, "config.json", faults[i].word);
    }
}

static void text_that_is_no_configuration_is_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "", "{", "[]", "null", "\"config\"", "{\"rms_norm_eps\": NaN}", "{\"rms_norm_eps\": 1e999}",
        "{\"hidden_size\": 99999999999999999999999}", "{\"hidden_size\": 1, \"hidden_size\": 2}", "{\"model_type\": \"\xff\"}",
        "{} trailing",
    };
    struct zl_config c;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct zl_error err = {0};
        files_write_text("config.json", texts[i]);
        ASSERT_REJECTED(zl_config_from_hf(files_dir, &c, &err), &err, "config.json");
    }
    struct bytes deep = {0};
    for (int i = 0; i < 100000; i++)
        put_text(&deep, "{\"a\":");
    struct zl_error err = {0};
    files_write("config.json", deep.p, deep.n);
    bytes_free(&deep);
    ASSERT_REJECTED(zl_config_from_hf(files_dir, &c, &err), &err, "config.json");
    err = (struct zl_error){0};
    unlink(files_path("config.json"));
    ASSERT_REJECTED(zl_config_from_hf(files_dir, &c, &err), &err, "config.json", "cannot open");
}

/* ---- rotary frequencies ---- */

/* Where the reference wants frequency j of `half` to be. */
typedef double formula(uint32_t j, uint32_t half);

static double plain(uint32_t j, uint32_t half)
{
    return 1 / pow(500000.0, (double)j / half);
}

static double linear_4(uint32_t j, uint32_t half)
{
    return plain(j, half) / 4;
}

/* Meta's apply_scaling of Llama 3.1 with factor 32, low 1, high 4, original context 8192 (Llama 3.2's numbers). */
static double llama3_32(uint32_t j, uint32_t half)
{
    double f = plain(j, half), turns = 8192 * f / (2 * pi);
    if (turns > 4)
        return f;
    if (turns < 1)
        return f / 32;
    double smooth = (turns - 1) / (4 - 1);
    return f / 32 + smooth * (f - f / 32);
}

/* Equations 22 and 23 of Peng et al. 2023 as their code rounds the borders: factor 4, original context 32768, beta 32 and 1. */
static double yarn_4(uint32_t j, uint32_t half)
{
    double border[2], beta[2] = {32, 1};
    for (int i = 0; i < 2; i++) /* the dimension that turns beta times in the original context */
        border[i] = half * log(32768 / (beta[i] * 2 * pi)) / log(500000.0);
    double low = floor(border[0]), high = ceil(border[1]);
    double keep = j <= low ? 1 : j >= high ? 0 : 1 - (j - low) / (high - low);
    return plain(j, half) * (keep + (1 - keep) / 4);
}

static void check_frequencies(const char *what, const struct zl_config *c, formula *expected, double attention)
{
    double inv_freq[128], factor, worst = 0;
    struct zl_error err = {0};
    const uint32_t half = c->head_dim / 2;
    assert_accepted(zl_rope_frequencies(c, NULL, 131072, inv_freq, &factor, &err), &err);
    for (uint32_t j = 0; j < half; j++)
        worst = fmax(worst, fabs(inv_freq[j] / expected(j, half) - 1));
    print_message("  %-40s relative difference %.2g <= 1e-12\n", what, worst);
    assert_true(worst <= 1e-12);
    assert_true(fabs(factor - attention) <= 1e-12);
}

#define LLAMA3 "\"factor\": 32.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192"
#define YARN "\"factor\": 4.0, \"original_max_position_embeddings\": 32768"

static void rope_variants_have_the_published_frequencies(void **state)
{
    (void)state;
    const double yarn = 0.1 * log(4) + 1;
    const struct {
        const char *changes;
        enum zl_rope_kind kind;
        formula *expected;
        double attention;
    } variants[] = {
        {"{}", ZL_ROPE_PLAIN, plain, 1},
        {"{\"rope_scaling\": null}", ZL_ROPE_PLAIN, plain, 1},
        {"{\"rope_scaling\": {\"rope_type\": \"default\"}}", ZL_ROPE_PLAIN, plain, 1},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 4}}", ZL_ROPE_LINEAR, linear_4, 1},
        {"{\"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 4.0}}", ZL_ROPE_LINEAR, linear_4, 1},
        {"{\"rope_scaling\": {\"rope_type\": null, \"type\": \"linear\", \"factor\": 4.0}}", ZL_ROPE_LINEAR, linear_4, 1},
        {"{\"rope_scaling\": {\"rope_type\": \"llama3\", " LLAMA3 "}}", ZL_ROPE_LLAMA3, llama3_32, 1},
        {"{\"rope_scaling\": {\"type\": \"llama3\", " LLAMA3 "}}", ZL_ROPE_LLAMA3, llama3_32, 1},
        {"{\"rope_scaling\": {\"type\": \"linear\", \"rope_type\": \"llama3\", " LLAMA3 "}}", ZL_ROPE_LLAMA3, llama3_32, 1},
        {"{\"rope_scaling\": {\"rope_type\": \"yarn\", " YARN "}}", ZL_ROPE_YARN, yarn_4, yarn},
        {"{\"rope_scaling\": {\"type\": \"yarn\", \"truncate\": true, \"attention_factor\": 1.5, " YARN "}}", ZL_ROPE_YARN, yarn_4, 1.5},
        /* transformers 5 */
        {"{\"-rope_theta\": 0, \"rope_parameters\": {\"rope_theta\": 500000.0}}", ZL_ROPE_PLAIN, plain, 1},
        {"{\"-rope_theta\": 0, \"rope_parameters\": {\"rope_type\": \"default\", \"rope_theta\": 500000.0}}", ZL_ROPE_PLAIN, plain, 1},
        {"{\"rope_theta\": 10000.0, \"rope_parameters\": {\"rope_type\": \"llama3\", \"rope_theta\": 500000.0, " LLAMA3 "}}",
         ZL_ROPE_LLAMA3, llama3_32, 1},
        {"{\"-rope_theta\": 0, \"rope_scaling\": null, \"rope_parameters\": {\"rope_type\": \"yarn\", \"rope_theta\": 500000, "
         "\"partial_rotary_factor\": 1.0, " YARN "}}",
         ZL_ROPE_YARN, yarn_4, yarn},
    };
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++) {
        struct zl_config c;
        struct zl_error err;
        char what[48];
        assert_accepted(read_changed(variants[i].changes, &c, &err), &err);
        assert_int_equal(c.rope.kind, variants[i].kind);
        snprintf(what, sizeof what, "%.47s", variants[i].changes);
        check_frequencies(what, &c, variants[i].expected, variants[i].attention);
    }
}

static void dynamic_scaling_is_plain_within_its_context_and_refused_beyond(void **state)
{
    (void)state;
    struct zl_config c;
    struct zl_error err;
    double inv_freq[128], factor;
    assert_accepted(read_changed("{\"max_position_embeddings\": 2048, \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}", &c,
                                 &err),
                    &err);
    assert_accepted(zl_rope_frequencies(&c, NULL, 2048, inv_freq, &factor, &err), &err);
    for (uint32_t j = 0; j < 32; j++)
        assert_true(fabs(inv_freq[j] / plain(j, 32) - 1) <= 1e-12);
    ASSERT_REJECTED(zl_rope_frequencies(&c, NULL, 2049, inv_freq, &factor, &err), &err, "dynamic", "2048");
}

static void rope_settings_that_are_not_understood_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *block, *word;
    } faults[] = {
        {"{\"rope_type\": \"longrope\", \"factor\": 2}", "longrope"},
        {"{\"type\": \"su\", \"factor\": 2}", "su"},
        {"{\"rope_type\": 3}", "rope_type"},
        {"{\"factor\": 2}", "rope_type"},
        {"[]", "object"},
        {"\"linear\"", "object"},
        {"{\"rope_type\": \"linear\"}", "factor"},
        {"{\"rope_type\": \"linear\", \"factor\": \"4\"}", "factor"},
        {"{\"rope_type\": \"linear\", \"factor\": 0}", "factor"},
        {"{\"rope_type\": \"linear\", \"factor\": -4}", "factor"},
        {"{\"rope_type\": \"default\", \"rope_theta\": 1}", "rope_theta"},
        {"{\"rope_type\": \"default\", \"partial_rotary_factor\": 0.25}", "partial_rotary_factor"},
        {"{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4}",
         "original_max_position_embeddings"},
        {"{\"rope_type\": \"llama3\", \"factor\": 8, \"original_max_position_embeddings\": 8192}", "low_freq_factor"},
        {"{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 4, \"high_freq_factor\": 1, "
         "\"original_max_position_embeddings\": 8192}",
         "high_freq_factor"},
        {"{\"rope_type\": \"llama3\", \"factor\": 8, \"low_freq_factor\": 1, \"high_freq_factor\": 4, "
         "\"original_max_position_embeddings\": 0}",
         "original_max_position_embeddings"},
        {"{\"rope_type\": \"yarn\", \"mscale\": 0.7, " YARN "}", "mscale"},
        {"{\"rope_type\": \"yarn\", \"truncate\": false, " YARN "}", "truncate"},
        {"{\"rope_type\": \"yarn\", \"beta_fast\": 1, \"beta_slow\": 32, " YARN "}", "beta_fast"},
        {"{\"rope_type\": \"yarn\", \"beta_slow\": 0, " YARN "}", "beta_slow"},
        {"{\"rope_type\": \"yarn\", \"attention_factor\": -1, " YARN "}", "attention factor"},
    };
    static const char *const keys[] = {"rope_scaling", "rope_parameters"};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        for (int k = 0; k < 2; k++) {
            struct zl_config c;
            struct zl_error err;
            char changes[512];
            snprintf(changes, sizeof changes, "{\"%s\": %s}", keys[k], faults[i].block);
            ASSERT_REJECTED(read_changed(changes, &c, &err), &err, "config.json", faults[i].word);
        }
}

/* ---- GGUF ---- */

static void put_u32_key(struct bytes *b, const char *key, uint32_t v)
{
    put_key(b, key, U32), put_u32(b, v);
}

static void put_f32_key(struct bytes *b, const char *key, float v)
{
    put_key(b, key, F32), put(b, &v, sizeof v);
}

/* Metadata of a small llama whose only tensor is the embedding; scaling NULL: no such key; NaN: no factor. */
static int read_gguf(const char *scaling, const char *factor_key, float factor, float eps, struct zl_config *c, struct zl_error *err)
{
    struct bytes b = {0};
    struct zl_gguf *g;
    *err = (struct zl_error){0};
    put_header(&b, 3, 1, 8 + (scaling != NULL) + (factor_key != NULL));
    put_key(&b, "general.architecture", STRING), put_string(&b, "llama");
    put_u32_key(&b, "llama.embedding_length", 64);
    put_u32_key(&b, "llama.feed_forward_length", 128);
    put_u32_key(&b, "llama.block_count", 2);
    put_u32_key(&b, "llama.attention.head_count", 1);
    put_u32_key(&b, "llama.context_length", 32768);
    put_f32_key(&b, "llama.rope.freq_base", 500000);
    put_f32_key(&b, "llama.attention.layer_norm_rms_epsilon", eps);
    if (scaling)
        put_key(&b, "llama.rope.scaling.type", STRING), put_string(&b, scaling);
    if (factor_key)
        put_f32_key(&b, factor_key, factor);
    put_tensor(&b, "token_embd.weight", 2, (uint64_t[]){64, 3}, 0, 0);
    put_padding(&b, 32);
    put_zeros(&b, 64 * 3 * 4);
    assert_accepted(zl_gguf_open(files_write("m.gguf", b.p, b.n), &g, err), err);
    bytes_free(&b);
    int rc = zl_config_from_gguf(g, c, err);
    zl_gguf_close(g);
    return rc;
}

static void gguf_rope_scaling_is_used(void **state)
{
    (void)state;
    static const char factor[] = "llama.rope.scaling.factor", old[] = "llama.rope.scale_linear";
    struct zl_config c;
    struct zl_error err;
    assert_accepted(read_gguf(NULL, NULL, 0, 1e-5f, &c, &err), &err);
    check_frequencies("no keys", &c, plain, 1);
    assert_accepted(read_gguf("none", factor, 4, 1e-5f, &c, &err), &err);
    check_frequencies("none, with a factor", &c, plain, 1);
    assert_accepted(read_gguf("linear", NULL, 0, 1e-5f, &c, &err), &err);
    check_frequencies("linear without a factor", &c, plain, 1);
    assert_accepted(read_gguf("linear", factor, 4, 1e-5f, &c, &err), &err);
    check_frequencies("linear", &c, linear_4, 1);
    assert_accepted(read_gguf(NULL, factor, 4, 1e-5f, &c, &err), &err);
    check_frequencies("a factor without a type", &c, linear_4, 1);
    assert_accepted(read_gguf(NULL, old, 4, 1e-5f, &c, &err), &err);
    check_frequencies("the old key", &c, linear_4, 1);
    assert_accepted(read_gguf("yarn", factor, 4, 1e-5f, &c, &err), &err);
    check_frequencies("yarn", &c, yarn_4, 0.1 * log(4) + 1);
    ASSERT_REJECTED(read_gguf("longrope", factor, 4, 1e-5f, &c, &err), &err, "m.gguf", "longrope");
    ASSERT_REJECTED(read_gguf("linear", factor, NAN, 1e-5f, &c, &err), &err, "m.gguf", "factor");
    ASSERT_REJECTED(read_gguf("yarn", NULL, 0, 1e-5f, &c, &err), &err, "m.gguf", "factor");
    ASSERT_REJECTED(read_gguf(NULL, NULL, 0, NAN, &c, &err), &err, "m.gguf", "epsilon");
    ASSERT_REJECTED(read_gguf(NULL, NULL, 0, INFINITY, &c, &err), &err, "m.gguf", "epsilon");
}

static void gguf_rope_freqs_divide_the_frequencies(void **state)
{
    (void)state;
    struct zl_config c;
    struct zl_error err;
    double inv_freq[32], factor;
    float divisors[32];
    assert_accepted(read_gguf(NULL, NULL, 0, 1e-5f, &c, &err), &err);
    for (uint32_t j = 0; j < 32; j++) /* what the converter writes for llama3 scaling */
        divisors[j] = (float)(plain(j, 32) / llama3_32(j, 32));
    assert_accepted(zl_rope_frequencies(&c, divisors, 131072, inv_freq, &factor, &err), &err);
    for (uint32_t j = 0; j < 32; j++)
        assert_true(fabs(inv_freq[j] / llama3_32(j, 32) - 1) <= 1e-7); /* they are float32 */
    c.rope.kind = ZL_ROPE_LINEAR;
    c.rope.factor = 4;
    assert_accepted(zl_rope_frequencies(&c, divisors, 131072, inv_freq, &factor, &err), &err);
    for (uint32_t j = 0; j < 32; j++)
        assert_true(fabs(inv_freq[j] / (llama3_32(j, 32) / 4) - 1) <= 1e-7);
    static const float bad[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        err = (struct zl_error){0};
        divisors[31] = bad[i];
        ASSERT_REJECTED(zl_rope_frequencies(&c, divisors, 64, inv_freq, &factor, &err), &err, "rope_freqs.weight");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILES_TEST(a_sound_configuration_is_read),
        FILES_TEST(missing_keys_are_named),
        FILES_TEST(values_that_make_no_model_are_refused),
        FILES_TEST(text_that_is_no_configuration_is_refused),
        FILES_TEST(rope_variants_have_the_published_frequencies),
        FILES_TEST(dynamic_scaling_is_plain_within_its_context_and_refused_beyond),
        FILES_TEST(rope_settings_that_are_not_understood_are_refused),
        FILES_TEST(gguf_rope_scaling_is_used),
        FILES_TEST(gguf_rope_freqs_divide_the_frequencies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
