/* PEFT adapter folders, in and out: what is read exactly, what is refused by name, and that writing
 * is whole or not at all. */
#include "tests/unit/format_files.h"

#include <jansson.h>
#include <locale.h>
#include <math.h>

#include "format/adapter.h"
#include "format/tensors.h"

static const float values[64] = {1, -2, 3.5f, -0.0f, 0x1p-149f, 6e-5f, 65504, 8};

/* An adapter folder "in" with rank-2 pairs for the modules, 3 in, 4 out. */
static const char *make_adapter(const char *config, const char *const *modules, size_t n)
{
    struct zl_safetensors_entry e[32] = {{0}};
    char names[32][256];
    struct zl_error err = {0};
    assert_true(n <= 16);
    mkdir(files_path("in"), 0777);
    for (size_t i = 0; i < 2 * n; i++) {
        snprintf(names[i], sizeof names[i], "base_model.model.%s.lora_%c.weight", modules[i / 2],
                 i % 2 ? 'B' : 'A');
        e[i] = (struct zl_safetensors_entry){
            names[i], 2, {i % 2 ? 4 : 2, i % 2 ? 2 : 3, 0, 0}, values};
    }
    files_write_text("in/adapter_config.json", config);
    assert_accepted(
        zl_safetensors_write(files_path("in/adapter_model.safetensors"), e, 2 * n, NULL, &err),
        &err);
    return files_path("in");
}

static const char *const q_proj[] = {"model.layers.0.self_attn.q_proj"};

static int read_config(const char *config, struct zl_adapter *a, struct zl_error *err)
{
    char notes[256];
    *err = (struct zl_error){0};
    return zl_adapter_read(make_adapter(config, q_proj, 1), a, notes, sizeof notes, err);
}

static const struct zl_adapter_module *find(const struct zl_adapter *a, const char *name)
{
    for (size_t i = 0; i < a->n; i++)
        if (!strcmp(a->modules[i].name, name))
            return &a->modules[i];
    fail_msg("no module %s", name);
    return NULL;
}

static void a_plain_adapter_is_read_exactly(void **state)
{
    (void)state;
    struct zl_adapter a;
    struct zl_error err;
    assert_accepted(read_config("{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":3}", &a, &err),
                    &err);
    assert_int_equal(a.n, 1);
    assert_string_equal(a.modules[0].name, q_proj[0]);
    assert_int_equal(a.modules[0].r, 2);
    assert_int_equal(a.modules[0].in, 3);
    assert_int_equal(a.modules[0].out, 4);
    assert_true(a.modules[0].scale == 1.5f);
    assert_memory_equal(a.modules[0].a, values, 6 * sizeof(float));
    assert_memory_equal(a.modules[0].b, values, 8 * sizeof(float));
    zl_adapter_free(&a);
}

static void half_precision_factors_become_floats_exactly(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        uint16_t bits[4];
        float f[4];
    } types[] = {
        {"F16", {0x3c00, 0xc000, 0x0001, 0x7bff}, {1, -2, 0x1p-24f, 65504}},
        {"F16", {0x8000, 0x83ff, 0x0400, 0xfc00}, {-0.0f, -0x1.ff8p-15f, 0x1p-14f, -INFINITY}},
        {"BF16", {0x3f80, 0xc000, 0x0001, 0x7f7f}, {1, -2, 0x1p-133f, 0x1.fep127f}}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char header[512];
        struct bytes b = {0};
        snprintf(header, sizeof header,
                 "{\"base_model.model.x.lora_A.weight\":{\"dtype\":\"%s\",\"shape\":[1,4],\"data_"
                 "offsets\":[0,8]},"
                 "\"base_model.model.x.lora_B.weight\":{\"dtype\":\"%s\",\"shape\":[4,1],\"data_"
                 "offsets\":[8,16]}}",
                 types[i].dtype, types[i].dtype);
        make_adapter("{\"peft_type\":\"LORA\",\"r\":1}", NULL, 0);
        put_u64(&b, strlen(header));
        put_text(&b, header);
        put(&b, types[i].bits, 8);
        put(&b, types[i].bits, 8);
        files_write("in/adapter_model.safetensors", b.p, b.n);
        bytes_free(&b);
        struct zl_adapter a;
        struct zl_error err = {0};
        assert_accepted(zl_adapter_read(files_path("in"), &a, NULL, 0, &err), &err);
        assert_memory_equal(a.modules[0].a, types[i].f, sizeof types[i].f);
        assert_memory_equal(a.modules[0].b, types[i].f, sizeof types[i].f);
        assert_true(a.modules[0].scale == 8); /* PEFT's default lora_alpha */
        zl_adapter_free(&a);
    }
}

static void options_that_change_the_maths_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *option, *say;
    } refused[] = {
        {"\"use_dora\":true", "use_dora"},
        {"\"use_qalora\":true", "use_qalora"},
        {"\"fan_in_fan_out\":true", "fan_in_fan_out"},
        {"\"modules_to_save\":[\"classifier\"]", "modules_to_save"},
        {"\"bias\":\"all\"", "bias"},
        {"\"lora_bias\":true", "lora_bias"},
        {"\"layer_replication\":[[0,4],[2,5]]", "layer_replication"},
        {"\"trainable_token_indices\":[1]", "trainable_token_indices"},
        {"\"target_parameters\":[\"x\"]", "target_parameters"},
        {"\"alora_invocation_tokens\":[1,2]", "alora_invocation_tokens"},
        {"\"init_lora_weights\":\"pissa\"", "init_lora_weights"},
        {"\"init_lora_weights\":\"olora\"", "init_lora_weights"},
        {"\"init_lora_weights\":3", "init_lora_weights"},
        {"\"r\":\"8\"", "r is \"8\", expected a whole number"},
        {"\"r\":0", "r is 0"},
        {"\"r\":-1", "r is -1"},
        {"\"r\":2.0", "r is 2.0"},
        {"\"r\":4294967296", "r is 4294967296"},
        {"\"lora_alpha\":\"16\"", "lora_alpha"},
        {"\"lora_alpha\":0", "lora_alpha is 0"},
        {"\"use_rslora\":1", "use_rslora is a whole number"},
        {"\"fan_in_fan_out\":\"no\"", "fan_in_fan_out is text"},
        {"\"rank_pattern\":[]", "rank_pattern"},
        {"\"rank_pattern\":{\"q_proj\":\"2\"}", "\"q_proj\" in rank_pattern"},
        {"\"rank_pattern\":{\"q_proj\":2.5}", "whole number"},
        {"\"alpha_pattern\":{\"q_proj\":0}", "\"q_proj\" in alpha_pattern"},
        {"\"r\":3", "of rank 2, expected 3"},
        {"\"r\":2,\"r\":2", "duplicate"},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char config[256];
        struct zl_adapter a;
        struct zl_error err;
        snprintf(config, sizeof config, "{\"peft_type\":\"LORA\",%s%s}", refused[i].option,
                 strstr(refused[i].option, "\"r\"") ? "" : ",\"r\":2");
        int rc = read_config(config, &a, &err);
        ASSERT_REJECTED(rc, &err, "/in/adapter_", refused[i].say);
        assert_null(a.modules);
    }
}

static void options_that_are_off_and_null_lists_load(void **state)
{
    (void)state;
    struct zl_adapter a;
    struct zl_error err;
    assert_accepted(read_config("{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":4.5,\"use_dora\":"
                                "false,\"bias\":\"none\",\"modules_to_save\":null,"
                                "\"rank_pattern\":null,\"alpha_pattern\":{},\"target_modules\":"
                                "null,\"layers_to_transform\":null,"
                                "\"init_lora_weights\":\"gaussian\",\"lora_dropout\":0.1,"
                                "\"trainable_token_indices\":[],\"loftq_config\":{},"
                                "\"use_rslora\":null,\"fan_in_fan_out\":false}",
                                &a, &err),
                    &err);
    assert_true(a.modules[0].scale == 2.25f);
    zl_adapter_free(&a);
}

static void unknown_keys_are_noted_once(void **state)
{
    (void)state;
    struct zl_adapter a;
    struct zl_error err = {0};
    char notes[256] = "left over", tiny[24];
    const char *dir = make_adapter("{\"peft_type\":\"LORA\",\"r\":2,\"new_option\":{\"x\":1},"
                                   "\"bias\":\"none\",\"other\\n\":3}",
                                   q_proj, 1);
    assert_accepted(zl_adapter_read(dir, &a, notes, sizeof notes, &err), &err);
    assert_non_null(
        strstr(notes, "adapter_config.json: unknown and ignored: \"new_option\", \"other?\""));
    zl_adapter_free(&a);
    assert_accepted(zl_adapter_read(dir, &a, tiny, sizeof tiny, &err), &err);
    assert_int_equal(strlen(tiny), sizeof tiny - 1);
    zl_adapter_free(&a);
    assert_accepted(read_config("{\"peft_type\":\"LORA\",\"r\":2}", &a, &err), &err);
    zl_adapter_free(&a);
    assert_accepted(zl_adapter_read(files_path("in"), &a, notes, sizeof notes, &err), &err);
    assert_string_equal(notes, "");
    zl_adapter_free(&a);
}

static void broken_folders_are_refused(void **state)
{
    (void)state;
    struct zl_adapter a;
    struct zl_error err = {0};
    assert_int_equal(zl_adapter_read(files_path("none"), &a, NULL, 0, &err), ZL_EINPUT);
    assert_non_null(strstr(err.text, "adapter_config.json"));
    int rc = read_config("{\"peft_type\":\"LORA\",\n\"r\":}", &a, &err);
    ASSERT_REJECTED(rc, &err, "adapter_config.json", "line 2");
    rc = read_config("[]", &a, &err);
    ASSERT_REJECTED(rc, &err, "a list, expected an object");
    rc = read_config("{\"peft_type\":\"LOHA\"}", &a, &err);
    ASSERT_REJECTED(rc, &err, "peft_type is \"LOHA\"", "\"LORA\"");
    rc = read_config("{}", &a, &err);
    ASSERT_REJECTED(rc, &err, "peft_type is missing");
    read_config("{\"peft_type\":\"LORA\",\"r\":2}", &a, &err);
    zl_adapter_free(&a);
    unlink(files_path("in/adapter_model.safetensors"));
    err = (struct zl_error){0};
    rc = zl_adapter_read(files_path("in"), &a, NULL, 0, &err);
    ASSERT_REJECTED(rc, &err, "adapter_model.safetensors", "No such file");
    files_write_text("in/adapter_model.bin", "");
    err = (struct zl_error){0};
    rc = zl_adapter_read(files_path("in"), &a, NULL, 0, &err);
    ASSERT_REJECTED(rc, &err, "adapter_model.bin", "pickle");
    make_adapter("{\"peft_type\":\"LORA\",\"r\":2}", NULL, 0);
    err = (struct zl_error){0};
    rc = zl_adapter_read(files_path("in"), &a, NULL, 0, &err);
    ASSERT_REJECTED(rc, &err, "holds no tensors");
}

static void tensors_that_are_no_pair_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *name, *say;
        uint64_t shape[2];
        int n_dims;
    } extra[] = {
        {"base_model.model.x.lora_A.weight", "has no lora_B", {2, 3}, 2},
        {"base_model.model.x.lora_B.weight", "has no lora_A", {4, 2}, 2},
        {"base_model.model.lm_head.weight", "modules_to_save", {4, 2}, 2},
        {"base_model.model.model.norm.weight", "modules_to_save", {4}, 1},
        {"rope_freqs.weight", "modules_to_save", {4}, 1},
        {"base_model.model.x.lora_magnitude_vector", "DoRA", {4}, 1},
        {"base_model.model.x.lora_embedding_A", "embedding", {2, 3}, 2},
        {"base_model.model.x.lora_B.bias", "LoRA bias", {4}, 1},
        {"base_model.model.x.lora_A.default.weight", "does not end in", {2, 3}, 2},
        {"model.layers.0.self_attn.k_proj.lora_A.weight", "does not end in", {2, 3}, 2},
        {"base_model.model.lora_A.weight", "base_model.model.lora_A.weight", {2, 3}, 2},
    };
    for (size_t i = 0; i < sizeof extra / sizeof *extra; i++) {
        struct zl_safetensors_entry e[3] = {
            {"base_model.model.q_proj.lora_A.weight", 2, {2, 3, 0, 0}, values},
            {"base_model.model.q_proj.lora_B.weight", 2, {4, 2, 0, 0}, values},
            {extra[i].name, extra[i].n_dims, {extra[i].shape[0], extra[i].shape[1], 0, 0}, values}};
        struct zl_error err = {0};
        struct zl_adapter a;
        make_adapter("{\"peft_type\":\"LORA\",\"r\":2}", NULL, 0);
        assert_accepted(
            zl_safetensors_write(files_path("in/adapter_model.safetensors"), e, 3, NULL, &err),
            &err);
        int rc = zl_adapter_read(files_path("in"), &a, NULL, 0, &err);
        ASSERT_REJECTED(rc, &err, "adapter_model.safetensors", extra[i].name, extra[i].say);
    }
    static const struct {
        uint64_t a[4], b[4];
        int n_a;
        const char *say;
    } shapes[] = {{{2, 3}, {4, 3}, 2, "of rank 2 but its lora_B is of rank 3"},
                  {{3, 3}, {4, 3}, 2, "of rank 3, expected 2"},
                  {{2, 3, 1, 1}, {4, 2}, 4, "two dimensions"},
                  {{0, 3}, {4, 0}, 2, "a dimension that is 0"}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct zl_safetensors_entry e[2] = {
            {"base_model.model.q_proj.lora_A.weight", shapes[i].n_a, {0}, values},
            {"base_model.model.q_proj.lora_B.weight", 2, {0}, values}};
        struct zl_error err = {0};
        struct zl_adapter a;
        memcpy(e[0].shape, shapes[i].a, sizeof e[0].shape);
        memcpy(e[1].shape, shapes[i].b, sizeof e[1].shape);
        assert_accepted(
            zl_safetensors_write(files_path("in/adapter_model.safetensors"), e, 2, NULL, &err),
            &err);
        int rc = zl_adapter_read(files_path("in"), &a, NULL, 0, &err);
        ASSERT_REJECTED(rc, &err, "q_proj.lora_A.weight", shapes[i].say);
    }
}

static void modules_may_be_called_anything(void **state)
{
    (void)state;
    static const char *const modules[] = {"weight",
                                          "model.weight_net.weight",
                                          "lora",
                                          "model.lora.lora_A.q",
                                          "x.lora_A.weight.y",
                                          "base_model.model.z",
                                          "lora_B.weight",
                                          "lm_head"};
    struct zl_adapter a;
    struct zl_error err = {0};
    assert_accepted(zl_adapter_read(make_adapter("{\"peft_type\":\"LORA\",\"r\":2}", modules, 8),
                                    &a, NULL, 0, &err),
                    &err);
    assert_int_equal(a.n, 8);
    for (size_t i = 0; i < 8; i++)
        find(&a, modules[i]);
    for (size_t i = 1; i < 8; i++)
        assert_true(strcmp(a.modules[i - 1].name, a.modules[i].name) < 0);
    zl_adapter_free(&a);
}

static void fan_in_fan_out_is_fine_for_conv1d_only(void **state)
{
    (void)state;
    static const char *const gpt2[] = {"transformer.h.0.attn.c_attn", "transformer.h.0.mlp.c_fc",
                                       "transformer.h.0.mlp.c_proj"};
    struct zl_adapter a;
    struct zl_error err = {0};
    const char *config = "{\"peft_type\":\"LORA\",\"r\":2,\"fan_in_fan_out\":true}";
    assert_accepted(zl_adapter_read(make_adapter(config, gpt2, 3), &a, NULL, 0, &err), &err);
    zl_adapter_free(&a);
    int rc = zl_adapter_read(make_adapter(config, q_proj, 1), &a, NULL, 0, &err);
    ASSERT_REJECTED(rc, &err, "fan_in_fan_out", q_proj[0]);
}

static void patterns_match_as_in_peft(void **state)
{
    (void)state;
    static const char *const modules[] = {
        "model.layers.0.self_attn.q_proj",  "model.layers.1.self_attn.q_proj",
        "model.layers.11.self_attn.q_proj", "model.layers.1.self_attn.my_q_proj",
        "model.layers.1.mlp.up_proj",       "model.layers.1.mlp.gate_proj"};
    struct zl_adapter a;
    struct zl_error err = {0};
    const char *config =
        "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":2,\"use_rslora\":%s,\"alpha_pattern\":{"
        "\"^model.layers.0.self_attn.q_proj\":10," /* anchored: the whole name */
        "\"layers.1.self_attn.q_proj\":20,"        /* the name's end, from a dot on */
        "\"q_proj\":30,"                           /* the rest of them, not my_q_proj */
        "\"mlp.(up|down)_proj\":40}}";
    char text[512];
    for (int rslora = 0; rslora < 2; rslora++) {
        snprintf(text, sizeof text, config, rslora ? "true" : "false");
        assert_accepted(zl_adapter_read(make_adapter(text, modules, 6), &a, NULL, 0, &err), &err);
        const double alphas[] = {10, 20, 30, 2, 40, 2};
        for (size_t i = 0; i < 6; i++)
            assert_true(find(&a, modules[i])->scale == (float)(alphas[i] / (rslora ? sqrt(2) : 2)));
        zl_adapter_free(&a);
    }
    int rc = read_config(
        "{\"peft_type\":\"LORA\",\"r\":1,\"rank_pattern\":{\"q_proj\":2,\"nope\":4}}", &a, &err);
    ASSERT_REJECTED(rc, &err, "\"nope\" of rank_pattern matches no module");
    rc =
        read_config("{\"peft_type\":\"LORA\",\"r\":2,\"alpha_pattern\":{\"^q_proj\":2}}", &a, &err);
    ASSERT_REJECTED(rc, &err, "\"^q_proj\" of alpha_pattern matches no module");
    rc =
        read_config("{\"peft_type\":\"LORA\",\"r\":2,\"alpha_pattern\":{\"q_proj(\":2}}", &a, &err);
    ASSERT_REJECTED(rc, &err, "\"q_proj(\" of alpha_pattern", "regular expression");
    rc = read_config("{\"peft_type\":\"LORA\",\"r\":2,\"alpha_pattern\":{\"(((.*)*)*)*q\":2}}", &a,
                     &err);
    ASSERT_REJECTED(rc, &err, "cannot be matched");
    assert_accepted(
        read_config("{\"peft_type\":\"LORA\",\"r\":7,\"rank_pattern\":{\"q_proj\":2}}", &a, &err),
        &err);
    assert_int_equal(a.modules[0].r, 2);
    assert_true(a.modules[0].scale == 4); /* the default alpha 8 by the module's own rank */
    zl_adapter_free(&a);
}

/* ---- writing
 * ---------------------------------------------------------------------------------------------------------
 */

static struct zl_adapter_module module(const char *name, uint32_t r, float scale)
{
    return (struct zl_adapter_module){(char *)name,       r, 3, 4, scale, (float *)values,
                                      (float *)values + 1};
}

static void expect_same(const struct zl_adapter *a, const struct zl_adapter *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++) {
        const struct zl_adapter_module *x = &a->modules[i], *y = find(b, x->name);
        assert_int_equal(x->r, y->r);
        assert_int_equal(x->in, y->in);
        assert_int_equal(x->out, y->out);
        assert_true(x->scale == y->scale);
        assert_memory_equal(x->a, y->a, x->r * x->in * sizeof(float));
        assert_memory_equal(x->b, y->b, x->r * x->out * sizeof(float));
    }
}

static void expect_round_trip(const struct zl_adapter_config *c, const struct zl_adapter *a)
{
    struct zl_adapter back;
    struct zl_error err = {0};
    char notes[256];
    assert_accepted(zl_adapter_write(files_path("out"), c, a, &err), &err);
    assert_accepted(zl_adapter_read(files_path("out"), &back, notes, sizeof notes, &err), &err);
    assert_string_equal(notes, "");
    expect_same(a, &back);
    zl_adapter_free(&back);
}

static size_t count_files(const char *dir)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static void what_is_written_reads_back_bit_for_bit(void **state)
{
    (void)state;
    struct zl_adapter_module m[] = {module("model.layers.0.self_attn.q_proj", 2, 4),
                                    module("model.layers.0.self_attn.v_proj", 2, 4)};
    const struct zl_adapter a = {m, 2};
    static const char *const targets[] = {"q_proj", "v_proj"};
    const struct zl_adapter_config c = {"some/model", 2, 8, targets, 2, "CAUSAL_LM", 0};
    expect_round_trip(&c, &a);
    assert_int_equal(count_files(files_dir), 1);
    assert_int_equal(count_files(files_path("out")), 2);
    json_t *root = json_load_file(files_path("out/adapter_config.json"), 0, NULL);
    assert_non_null(root);
    assert_string_equal(json_string_value(json_object_get(root, "peft_type")), "LORA");
    assert_string_equal(json_string_value(json_object_get(root, "task_type")), "CAUSAL_LM");
    assert_string_equal(json_string_value(json_object_get(root, "base_model_name_or_path")),
                        "some/model");
    assert_int_equal(json_integer_value(json_object_get(root, "r")), 2);
    assert_int_equal(json_integer_value(json_object_get(root, "lora_alpha")), 8);
    assert_int_equal(json_array_size(json_object_get(root, "target_modules")), 2);
    assert_int_equal(json_object_size(json_object_get(root, "rank_pattern")), 0);
    assert_true(json_is_false(json_object_get(root, "fan_in_fan_out")));
    json_decref(root);
    expect_round_trip(&c, &a); /* onto itself */
    assert_int_equal(count_files(files_dir), 1);
}

static void ranks_and_scales_of_their_own_read_back(void **state)
{
    (void)state;
    struct zl_adapter_module m[] = {
        module("q", 1, (float)(16 / sqrt(1))),
        module("x.q", 2, (float)(8 / sqrt(2))),
        module("y.x.q", 3, (float)(3 / sqrt(3))),
        module("layers.1.q", 4, 0.1f),
        module("layers.11.q", 2, 1e-5f),
        module("a+b(c).q", 5, 3),
        module("deep.a+b(c).q", 2, (float)(1 / 3.0)),
    };
    const struct zl_adapter a = {m, 7};
    const struct zl_adapter_config c = {NULL, 2, 8, NULL, 0, NULL, 0};
    expect_round_trip(&c, &a);
    struct zl_adapter_module scales[] = {module("x.q", 2, 4), module("x.k", 2, 5)};
    expect_round_trip(&c, &(struct zl_adapter){scales, 2});
    expect_round_trip(&(struct zl_adapter_config){NULL, 2, 1e-5, NULL, 0, NULL, 0},
                      &(struct zl_adapter){scales, 2});
}

/* Switch to a locale with a decimal comma; built in the test's folder where the system lacks it. */
static bool use_german(void)
{
    char command[256];
    if (setlocale(LC_ALL, "de_DE.UTF-8"))
        return true;
    snprintf(command, sizeof command,
             "localedef -i de_DE -f UTF-8 '%s/de_DE.UTF-8' >/dev/null 2>&1", files_dir);
    if (system(command))
        return false;
    setenv("LOCPATH", files_dir, 1);
    return setlocale(LC_ALL, "de_DE.UTF-8");
}

static void the_locale_changes_no_byte(void **state)
{
    (void)state;
    struct zl_adapter_module m[] = {module("x.q", 2, 0.25f)};
    const struct zl_adapter_config c = {NULL, 2, 0.5, NULL, 0, NULL, 0};
    if (!use_german()) {
        print_message("skipped: there is no locale de_DE.UTF-8 and localedef cannot make it\n");
        skip();
    }
    char comma[8];
    snprintf(comma, sizeof comma, "%.1f", 0.5);
    assert_string_equal(comma, "0,5");
    expect_round_trip(&c, &(struct zl_adapter){m, 1});
    setlocale(LC_ALL, "C");
    struct zl_adapter back;
    struct zl_error err = {0};
    assert_accepted(zl_adapter_read(files_path("out"), &back, NULL, 0, &err), &err);
    assert_true(back.modules[0].scale == 0.25f);
    zl_adapter_free(&back);
}

static int write_with(const char *dir, const struct zl_adapter_config *c,
                      struct zl_adapter_module m, struct zl_error *err)
{
    *err = (struct zl_error){0};
    return zl_adapter_write(dir, c, &(struct zl_adapter){&m, 1}, err);
}

static void what_readers_would_take_wrong_is_not_written(void **state)
{
    (void)state;
    static const char *const targets[] = {"q_proj", "proj"};
    struct zl_error err;
    const struct zl_adapter_config good = {NULL, 2, 8, NULL, 0, NULL, 0},
                                   none = {NULL, 0, 8, NULL, 0, NULL, 0},
                                   zero = {NULL, 2, 0, NULL, 0, NULL, 0},
                                   other = {NULL, 2, 8, targets, 2, NULL, 0};
    const char *out = files_path("out");
    assert_int_equal(write_with(out, &none, module("q", 2, 4), &err), ZL_EUSAGE);
    assert_int_equal(write_with(out, &zero, module("q", 2, 4), &err),
                     ZL_EUSAGE); /* alpha 0 means 1 to some */
    assert_int_equal(write_with(out, &good, module("q", 2, 0), &err), ZL_EUSAGE);
    assert_int_equal(write_with(out, &good, module("q", 2, NAN), &err), ZL_EUSAGE);
    assert_int_equal(write_with(out, &other, module("x.my_q_proj", 2, 4), &err),
                     ZL_EUSAGE); /* PEFT would drop it */
    assert_non_null(strstr(err.text, "x.my_q_proj"));
    err = (struct zl_error){0};
    assert_int_equal(zl_adapter_write(out, &good, &(struct zl_adapter){0}, &err), ZL_EUSAGE);
    assert_int_equal(count_files(files_dir), 0);
}

static void foreign_folders_are_not_replaced(void **state)
{
    (void)state;
    struct zl_error err;
    const struct zl_adapter_config c = {NULL, 2, 8, NULL, 0, NULL, 0};
    mkdir(files_path("out"), 0777);
    files_write_text("out/thesis.tex", "years of work");
    assert_int_equal(write_with(files_path("out"), &c, module("q", 2, 4), &err), ZL_EUSAGE);
    assert_non_null(strstr(err.text, "thesis.tex"));
    assert_int_equal(access(files_path("out/thesis.tex"), F_OK), 0);
    assert_int_equal(count_files(files_path("out")), 1);
    files_write_text("file", "");
    assert_int_equal(write_with(files_path("file"), &c, module("q", 2, 4), &err), ZL_EUSAGE);
    assert_int_equal(write_with(files_path("no/such/out"), &c, module("q", 2, 4), &err),
                     ZL_ESYSTEM);
    mkdir(files_path("empty"), 0777);
    assert_accepted(write_with(files_path("empty/"), &c, module("q", 2, 4), &err), &err);
    assert_int_equal(symlink("empty", files_path("link")), 0);
    assert_accepted(write_with(files_path("link"), &c, module("k", 2, 4), &err), &err);
    struct stat st;
    assert_int_equal(lstat(files_path("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    struct zl_adapter back;
    assert_accepted(zl_adapter_read(files_path("empty"), &back, NULL, 0, &err), &err);
    assert_string_equal(back.modules[0].name, "k");
    zl_adapter_free(&back);
    assert_int_equal(count_files(files_dir), 4); /* nothing temporary remains */
}

static void a_failed_write_leaves_the_old_adapter(void **state)
{
    (void)state;
    struct zl_error err;
    const struct zl_adapter_config c = {NULL, 2, 8, NULL, 0, NULL, 0};
    assert_accepted(write_with(files_path("out"), &c, module("q", 2, 4), &err), &err);
    assert_true(write_with(files_path("out"), &c, module("\xff", 2, 4), &err) <
                0); /* no UTF-8: fails when writing */
    struct zl_adapter back;
    err = (struct zl_error){0};
    assert_accepted(zl_adapter_read(files_path("out"), &back, NULL, 0, &err), &err);
    assert_string_equal(back.modules[0].name, "q");
    zl_adapter_free(&back);
    assert_int_equal(count_files(files_dir), 1);
}

static void reference_adapters_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *dir;
        size_t modules;
        const char *one;
        uint32_t r;
        double scale;
    } d[] = {{"llama/adapter", 35, "model.layers.0.mlp.down_proj", 4, 2},
             {"llama/adapter-layers", 4, "model.layers.3.self_attn.v_proj", 3, 5.0 / 3},
             {"llama/adapter-regex", 10, "model.layers.4.mlp.gate_proj", 5, 2},
             {"llama/adapter-rslora-pattern", 35, "model.layers.1.mlp.down_proj", 6,
              8 / 2.449489742783178},
             {"llama/adapter-rslora-pattern", 35, "model.layers.0.mlp.down_proj", 4, 4},
             {"llama/adapter-rslora-pattern", 35, "model.layers.2.self_attn.o_proj", 4, 8},
             {"llama/adapter-rslora-pattern", 35, "model.layers.1.self_attn.v_proj", 4, 1.5},
             {"llama/adapter-rslora-pattern", 35, "model.layers.3.self_attn.q_proj", 2,
              8 / 1.4142135623730951},
             {"llama3/adapter", 28, "model.layers.0.mlp.down_proj", 4, 2},
             {"qwen2/adapter", 28, "model.layers.0.mlp.down_proj", 4, 2},
             {"qwen3/adapter", 35, "model.layers.0.mlp.down_proj", 4, 2},
             {"opt/adapter", 30, "model.decoder.layers.0.fc1", 4, 2},
             {"gpt2/adapter", 16, "transformer.h.0.attn.c_attn", 4, 2},
             {"roberta-cls/adapter", 24, "roberta.encoder.layer.0.attention.output.dense", 4, 2},
             {"roberta-mlm/adapter", 24, "roberta.encoder.layer.0.attention.output.dense", 4, 2}};
    for (size_t i = 0; i < sizeof d / sizeof *d; i++) {
        char path[256], notes[256];
        struct zl_adapter a;
        struct zl_error err = {0};
        snprintf(path, sizeof path, "golden/models/%s", d[i].dir);
        assert_accepted(zl_adapter_read(zl_test_shared(path), &a, notes, sizeof notes, &err), &err);
        assert_string_equal(notes, "");
        assert_int_equal(a.n, d[i].modules);
        const struct zl_adapter_module *m = find(&a, d[i].one);
        assert_int_equal(m->r, d[i].r);
        print_message("%s %s: |scale - expected| = %g, bound 1e-7 of it\n", d[i].dir, d[i].one,
                      fabs(m->scale - d[i].scale));
        assert_true(fabs(m->scale - d[i].scale) <= 1e-7 * d[i].scale);
        expect_round_trip(&(struct zl_adapter_config){"x", 4, 8, NULL, 0, "CAUSAL_LM", 0}, &a);
        zl_adapter_free(&a);
    }
    struct zl_adapter a;
    struct zl_error err = {0};
    int rc = zl_adapter_read(zl_test_shared("golden/models/roberta-cls/adapter-seqcls"), &a, NULL,
                             0, &err);
    ASSERT_REJECTED(rc, &err, "modules_to_save", "classifier");
}

static void a_scale_that_float32_cannot_hold_is_rejected(void **state)
{
    (void)state;
    static const char *const alphas[] = {"1e308", "1e-308", "1e-39"};
    for (size_t i = 0; i < sizeof alphas / sizeof *alphas; i++) {
        char config[96];
        struct zl_adapter a;
        struct zl_error err;
        snprintf(config, sizeof config, "{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":%s}", alphas[i]);
        assert_int_equal(read_config(config, &a, &err), ZL_EINPUT);
        assert_non_null(strstr(err.text, "lora_alpha"));
    }
}

/* An adapter of NaN tells its user nothing until it answers nonsense. */
static void an_adapter_that_is_not_finite_is_not_written(void **state)
{
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        float a[6] = {1, 2, 3, 4, 5, 6}, b[8] = {0};
        char name[] = "model.layers.0.self_attn.q_proj";
        struct zl_adapter_module m = {.name = name, .r = 2, .in = 3, .out = 4, .scale = 1, .a = a, .b = b};
        const struct zl_adapter adapter = {&m, 1};
        const struct zl_adapter_config c = {.r = 2, .alpha = 2};
        struct zl_error err = {0};
        b[7] = bad[i];
        assert_int_equal(zl_adapter_write(files_path("not-finite"), &c, &adapter, &err), ZL_EINPUT);
        assert_non_null(strstr(err.text, name));
        assert_int_not_equal(access(files_path("not-finite"), F_OK), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FILES_TEST(a_plain_adapter_is_read_exactly),
        FILES_TEST(half_precision_factors_become_floats_exactly),
        FILES_TEST(options_that_change_the_maths_are_refused_by_name),
        FILES_TEST(options_that_are_off_and_null_lists_load),
        FILES_TEST(unknown_keys_are_noted_once),
        FILES_TEST(broken_folders_are_refused),
        FILES_TEST(tensors_that_are_no_pair_are_refused_by_name),
        FILES_TEST(modules_may_be_called_anything),
        FILES_TEST(fan_in_fan_out_is_fine_for_conv1d_only),
        FILES_TEST(patterns_match_as_in_peft),
        FILES_TEST(what_is_written_reads_back_bit_for_bit),
        FILES_TEST(ranks_and_scales_of_their_own_read_back),
        FILES_TEST(the_locale_changes_no_byte),
        FILES_TEST(what_readers_would_take_wrong_is_not_written),
        FILES_TEST(a_scale_that_float32_cannot_hold_is_rejected),
        FILES_TEST(an_adapter_that_is_not_finite_is_not_written),
        FILES_TEST(foreign_folders_are_not_replaced),
        FILES_TEST(a_failed_write_leaves_the_old_adapter),
        FILES_TEST(reference_adapters_are_read),
    };
    return cmocka_run_group_tests_name("adapter", tests, NULL, NULL);
}
