/* Adapters of a run of layers: how they start, how they go to PEFT's modules and back, which modules fit a model. */
#include "tests/unit/test.h"

#include <math.h>

#include "model/lora.h"

enum { LAYERS = 5, ALL = (1 << ZL_LINEARS) - 1 };

static struct zl_config config(void)
{
    return (struct zl_config){.arch = zl_arch_by_hf("llama"), .layers = LAYERS, .heads = 4, .kv_heads = 2, .head_dim = 8, .d = 32,
                              .ffn = 48, .vocab = 100, .max_positions = 64, .norm_eps = 1e-5};
}

static const struct zl_lora_spec spec = {.rank = 4, .targets = ALL, .alpha = 8};

static struct zl_lora make(const struct zl_config *c, uint32_t first, uint32_t n, const struct zl_lora_spec *s, uint64_t seed,
                           uint32_t tag)
{
    struct zl_lora l;
    struct zl_error err = {0};
    assert_int_equal(zl_lora_layout(&l, c, first, n, s, &err), 0);
    l.w = l.owned = calloc(l.size + 1, sizeof(float));
    zl_lora_init(&l, c, s, seed, tag);
    return l;
}

static const float *a_of(const struct zl_lora *l, uint32_t layer, int role)
{
    return l->w + l->layer[layer - l->first].module[role].a;
}

static size_t a_bytes(const struct zl_config *c, int role)
{
    return spec.rank * zl_linear_in(c, role) * sizeof(float);
}

static void initial_weights_do_not_depend_on_the_cut(void **state)
{
    (void)state;
    static const uint32_t cuts[][3] = {{0, 1, LAYERS}, {0, 3, LAYERS}, {2, 4, LAYERS}, {4, LAYERS, LAYERS}};
    const struct zl_config c = config();
    struct zl_lora whole = make(&c, 0, LAYERS, &spec, 42, 0);
    for (size_t i = 0; i < sizeof cuts / sizeof cuts[0]; i++)
        for (int half = 0; half < 2; half++) {
            const uint32_t first = cuts[i][half], end = cuts[i][half + 1];
            if (first == end)
                continue;
            struct zl_lora part = make(&c, first, end - first, &spec, 42, 0);
            for (uint32_t layer = first; layer < end; layer++)
                for (int role = 0; role < ZL_LINEARS; role++)
                    assert_memory_equal(a_of(&part, layer, role), a_of(&whole, layer, role), a_bytes(&c, role));
            zl_lora_free(&part);
        }
    /* nor on which other modules have one */
    const struct zl_lora_spec two = {.rank = 4, .targets = 1u << ZL_W_V | 1u << ZL_W_DOWN, .alpha = 8};
    struct zl_lora part = make(&c, 1, 2, &two, 42, 0);
    assert_memory_equal(a_of(&part, 2, ZL_W_V), a_of(&whole, 2, ZL_W_V), a_bytes(&c, ZL_W_V));
    assert_memory_equal(a_of(&part, 1, ZL_W_DOWN), a_of(&whole, 1, ZL_W_DOWN), a_bytes(&c, ZL_W_DOWN));
    zl_lora_free(&part);
    zl_lora_free(&whole);
}

static double correlation(const float *x, const float *y, size_t n)
{
    double xy = 0, xx = 0, yy = 0;
    for (size_t i = 0; i < n; i++) {
        xy += (double)x[i] * (double)y[i];
        xx += (double)x[i] * (double)x[i];
        yy += (double)y[i] * (double)y[i];
    }
    return xy / sqrt(xx * yy);
}

static void initial_weights_differ_by_layer_module_seed_and_tag(void **state)
{
    (void)state;
    const struct zl_config c = config();
    struct zl_lora one = make(&c, 0, LAYERS, &spec, 42, 0);
    struct zl_lora other[] = {make(&c, 0, LAYERS, &spec, 43, 0), make(&c, 0, LAYERS, &spec, 42 + (UINT64_C(1) << 32), 0),
                              make(&c, 0, LAYERS, &spec, 42, 1), make(&c, 0, LAYERS, &spec, 42, 2)};
    double worst = 0;
    for (uint32_t i = 0; i < LAYERS; i++)
        for (int role = 0; role < ZL_LINEARS; role++) {
            const size_t n = 128; /* all have at least 4 x 32 */
            for (uint32_t j = 0; j < LAYERS; j++)
                for (int with = 0; with < ZL_LINEARS; with++)
                    if (i != j || role != with)
                        worst = fmax(worst, fabs(correlation(a_of(&one, i, role), a_of(&one, j, with), n)));
            for (int k = 0; k < 4; k++)
                worst = fmax(worst, fabs(correlation(a_of(&one, i, role), a_of(&other[k], i, role), n)));
        }
    print_message("  largest correlation %.2f <= 0.5\n", worst);
    assert_true(worst <= 0.5);
    for (int k = 0; k < 4; k++)
        zl_lora_free(&other[k]);
    zl_lora_free(&one);
}

static void a_is_spread_as_said_and_b_is_zero(void **state)
{
    (void)state;
    const struct zl_config c = config();
    const struct zl_lora_spec normal = {.rank = 64, .targets = ALL, .alpha = 8, .normal_init = true},
                              uniform = {.rank = 64, .targets = ALL, .alpha = 8};
    for (int kind = 0; kind < 2; kind++) {
        const struct zl_lora_spec *s = kind ? &normal : &uniform;
        struct zl_lora l = make(&c, 0, LAYERS, s, 1, 0);
        for (int role = 0; role < ZL_LINEARS; role++) {
            const struct zl_lora_module *m = &l.layer[3].module[role];
            const double in = zl_linear_in(&c, role), n = m->r * in;
            double sum = 0, squares = 0, largest = 0, want = kind ? 0.01 : 1 / sqrt(3 * in);
            for (uint64_t i = 0; i < (uint64_t)n; i++) {
                const double v = (double)l.w[m->a + i];
                sum += v;
                squares += v * v;
                largest = fmax(largest, fabs(v));
            }
            assert_true(fabs(sum / n) < 4 * want / sqrt(n));
            assert_true(fabs(sqrt(squares / n) / want - 1) < 0.1);
            assert_true(kind || (largest <= 1 / sqrt(in) * (1 + 1e-6) && largest > 0.95 / sqrt(in)));
            for (uint64_t i = 0; i < (uint64_t)m->r * zl_linear_out(&c, role); i++)
                assert_true(l.w[m->bt + i] == 0);
            assert_true(m->scale == 8.0f / 64);
        }
        zl_lora_free(&l);
    }
}

static void targets_are_names_or_sets(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t bits;
    } good[] = {
        {"all", ALL},
        {"all-linear", ALL},
        {"attention", 1u << ZL_W_Q | 1u << ZL_W_K | 1u << ZL_W_V | 1u << ZL_W_O},
        {"mlp", 1u << ZL_W_GATE | 1u << ZL_W_UP | 1u << ZL_W_DOWN},
        {"q_proj,v_proj", 1u << ZL_W_Q | 1u << ZL_W_V},
        {"mlp,q_proj,q_proj", 1u << ZL_W_GATE | 1u << ZL_W_UP | 1u << ZL_W_DOWN | 1u << ZL_W_Q},
    };
    static const char *const bad[] = {"", "q", "q_proj,", "q_proj,,v_proj", ",", "lm_head", "Q_PROJ", " q_proj", "q_proj v_proj"};
    uint32_t bits;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        struct zl_error err = {0};
        assert_int_equal(zl_lora_targets(good[i].text, &bits, &err), 0);
        assert_int_equal(bits, good[i].bits);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct zl_error err = {0};
        if (zl_lora_targets(bad[i], &bits, &err) != ZL_EUSAGE || !strstr(err.text, "--targets"))
            fail_msg("targets \"%s\" are taken", bad[i]);
    }
}

static void fill(float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        x[i] = (float)(i % 8191) + 0.25f;
}

static const struct zl_adapter_module *find(const struct zl_adapter *a, const char *name)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->modules[i].name, name) == 0)
            return &a->modules[i];
    fail_msg("no module %s", name);
    return NULL;
}

static void export_and_import_are_inverse(void **state)
{
    (void)state;
    for (int interleaved = 0; interleaved < 2; interleaved++) {
        struct zl_config c = config();
        struct zl_error err = {0};
        struct zl_adapter a;
        c.rope_interleaved = interleaved;
        struct zl_lora first = make(&c, 0, 2, &spec, 1, 0), second = make(&c, 2, 3, &spec, 1, 0);
        const struct zl_lora *parts[] = {&first, &second};
        fill(first.w, first.size);
        fill(second.w, second.size);
        assert_int_equal(zl_lora_export(parts, 2, &c, &a, &err), 0);
        assert_int_equal(a.n, LAYERS * ZL_LINEARS);
        for (size_t i = 1; i < a.n; i++)
            assert_true(strcmp(a.modules[i - 1].name, a.modules[i].name) < 0);
        assert_int_equal(zl_adapter_check(&a, &c, "it", &err), 0);

        struct zl_lora back;
        assert_int_equal(zl_lora_layout_adapter(&back, &c, 2, 3, &a, &err), 0);
        assert_int_equal(back.size, second.size);
        back.w = back.owned = calloc(back.size, sizeof(float));
        zl_lora_import(&back, &c, &a);
        for (uint32_t i = 0; i < 3; i++)
            for (int role = 0; role < ZL_LINEARS; role++) {
                const struct zl_lora_module *m = &back.layer[i].module[role];
                assert_memory_equal(back.w + m->a, second.w + m->a, m->r * zl_linear_in(&c, role) * sizeof(float));
                assert_memory_equal(back.w + m->bt, second.w + m->bt, m->r * zl_linear_out(&c, role) * sizeof(float));
                assert_true(m->scale == 2);
            }
        /* PEFT's B has a row per output in Hugging Face's order; a file of neighbouring pairs has row j at 2j, j + 4 at 2j + 1 */
        static const struct {
            const char *name;
            int role;
            uint32_t hf, file;
        } rows[] = {{"model.layers.3.self_attn.q_proj", ZL_W_Q, 8 + 1, 8 + 2}, {"model.layers.3.self_attn.q_proj", ZL_W_Q, 24 + 6, 24 + 5},
                    {"model.layers.3.self_attn.k_proj", ZL_W_K, 7, 7},          {"model.layers.3.self_attn.k_proj", ZL_W_K, 4, 1},
                    {"model.layers.3.self_attn.v_proj", ZL_W_V, 4, 4},          {"model.layers.3.mlp.up_proj", ZL_W_UP, 4, 4}};
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const struct zl_lora_module *m = &second.layer[1].module[rows[i].role];
            const uint32_t row = interleaved ? rows[i].file : rows[i].hf, out = zl_linear_out(&c, rows[i].role);
            for (uint32_t k = 0; k < m->r; k++)
                assert_true(find(&a, rows[i].name)->b[rows[i].hf * m->r + k] == second.w[m->bt + (uint64_t)k * out + row]);
        }
        zl_lora_free(&back);
        zl_lora_free(&first);
        zl_lora_free(&second);
        zl_adapter_free(&a);
    }
}

static void adapters_that_fit_another_model_are_refused(void **state)
{
    (void)state;
    const struct zl_config c = config();
    static const struct {
        const char *name;
        uint32_t in, out;
        const char *words[2]; /* NULL: it fits */
    } modules[] = {
        {"model.layers.0.self_attn.q_proj", 32, 32, {NULL, NULL}},
        {"model.layers.4.mlp.down_proj", 48, 32, {NULL, NULL}},
        {"model.layers.0.self_attn.k_proj", 32, 32, {"model.layers.0.self_attn.k_proj", "[16][32]"}},
        {"model.layers.0.mlp.down_proj", 32, 48, {"model.layers.0.mlp.down_proj", "[32][48]"}},
        {"model.layers.0.mlp.down_proj", UINT32_MAX, 32, {"model.layers.0.mlp.down_proj", "[32][48]"}},
        {"model.layers.5.self_attn.q_proj", 32, 32, {"model.layers.5.self_attn.q_proj", NULL}},
        {"model.layers.00.self_attn.q_proj", 32, 32, {"model.layers.00.self_attn.q_proj", NULL}},
        {"layers.0.self_attn.q_proj", 32, 32, {"layers.0.self_attn.q_proj", NULL}},
        {"model.layers.0.self_attn.q_proj.weight", 32, 32, {"q_proj.weight", NULL}},
        {"model.layers.0.self_attn.q_proj_x", 32, 32, {"q_proj_x", NULL}},
        {"model.layers.0.self_attn.rotary_emb", 32, 32, {"rotary_emb", NULL}},
        {"lm_head", 32, 100, {"lm_head", NULL}},
        {"model.embed_tokens", 100, 32, {"model.embed_tokens", NULL}},
        {"transformer.h.0.attn.c_attn", 32, 96, {"transformer.h.0.attn.c_attn", NULL}},
        {"", 32, 32, {"has a module", NULL}},
    };
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        char name[64], last[] = "model.layers.1.self_attn.v_proj";
        struct zl_error err = {0};
        snprintf(name, sizeof name, "%s", modules[i].name);
        struct zl_adapter_module two[2] = {{.name = name, .r = 2, .in = modules[i].in, .out = modules[i].out},
                                           {.name = last, .r = 2, .in = 32, .out = 16}};
        const struct zl_adapter a = {.modules = two, .n = 2};
        int rc = zl_adapter_check(&a, &c, "adapter/", &err);
        if (!modules[i].words[0]) {
            assert_int_equal(rc, 0);
            continue;
        }
        assert_int_equal(rc, ZL_EINPUT);
        assert_non_null(strstr(err.text, "adapter/: "));
        for (int k = 0; k < 2; k++)
            if (modules[i].words[k] && !strstr(err.text, modules[i].words[k]))
                fail_msg("the error \"%s\" does not say \"%s\"", err.text, modules[i].words[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(initial_weights_do_not_depend_on_the_cut),
        cmocka_unit_test(initial_weights_differ_by_layer_module_seed_and_tag),
        cmocka_unit_test(a_is_spread_as_said_and_b_is_zero),
        cmocka_unit_test(targets_are_names_or_sets),
        cmocka_unit_test(export_and_import_are_inverse),
        cmocka_unit_test(adapters_that_fit_another_model_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
