/*
 * Training only the last layers: their gradients are those of training all, whatever the schedule; those below keep nothing, get no adapter, and
 * what they start with stays as it is.
 */
#include "tests/unit/test.h"

#include <math.h>

#include "format/adapter.h"
#include "tests/unit/tiny-run.h"
#include "tests/variant.h"

enum { LAYERS = 6, VOCAB = 260, ALL = (1 << ZL_LINEARS) - 1 };

static struct tiny tiny;
static struct zl_model model;
static const struct zl_lora_spec all = {.rank = 4, .targets = ALL, .alpha = 8};

static struct zl_block_spec spec_of(const struct zl_lora_spec *lora, uint32_t n_own)
{
    return (struct zl_block_spec){
        .n_own = n_own, .lora = lora, .seed = 7, .train = true, .has_loss = true, .tokens = 160, .keep_tokens = 160, .longest = 160};
}

static void open_block(struct zl_block *b, const struct zl_block_spec *s)
{
    struct zl_error err = {0};
    if (zl_block_open(b, &model, s, 2, &err))
        fail_msg("%s", err.text);
}

static double loss_of(struct zl_block *b, const struct batch *batch)
{
    struct zl_loss loss;
    zl_block_forward(b, 0, &batch->tok, batch->x);
    zl_block_loss(b, 0, &batch->tok, batch->labels, 0.01f, true, &loss);
    return loss.sum;
}

static void gradients_are_those_of_training_all_layers(void **state)
{
    (void)state;
    struct batch batch;
    batch_make(&batch, &model, (int64_t[]){50, 33, 7}, 3, VOCAB, 1);
    for (uint32_t first = 1; first < LAYERS; first++)
        for (int mode = 0; mode <= ZL_RECOMPUTE_FULL + 1; mode++) {
            const struct zl_lora_spec last = {.rank = 4, .targets = ALL, .alpha = 8, .first = first};
            struct zl_block_spec s[2] = {spec_of(&all, LAYERS), spec_of(&last, LAYERS)};
            struct zl_block b[2];
            s[1].recompute = mode > ZL_RECOMPUTE_FULL ? ZL_RECOMPUTE_NONE : (enum zl_recompute)mode;
            s[0].halves = s[1].halves = mode > ZL_RECOMPUTE_FULL;
            for (int i = 0; i < 2; i++)
                open_block(&b[i], &s[i]);
            const uint64_t from = b[0].own.layer[first].group_a[0];
            assert_int_equal(b[1].n, b[0].n - from);
            for (uint64_t i = 0; i < b[1].n; i++) {
                assert_true(b[1].w[i] == b[0].w[from + i]);
                b[1].w[i] = b[0].w[from + i] += 0.02f * (float)sin((double)i); /* B away from zero */
            }
            assert_true(loss_of(&b[0], &batch) == loss_of(&b[1], &batch));
            assert_memory_equal(b[1].g, b[0].g + from, b[1].n * sizeof(float));
            for (int i = 0; i < 2; i++)
                zl_block_close(&b[i]);
        }
    batch_free(&batch);
}

static void layers_that_do_not_train_keep_nothing(void **state)
{
    (void)state;
    uint64_t bytes[LAYERS] = {0};
    for (uint32_t first = 0; first < LAYERS; first++) {
        const struct zl_lora_spec last = {.rank = 4, .targets = ALL, .alpha = 8, .first = first};
        const struct zl_lora_spec none = {.rank = 4, .targets = ALL, .alpha = 8};
        const struct zl_block_spec s = spec_of(&last, LAYERS);
        struct zl_block_spec alone = spec_of(&none, LAYERS - first);
        struct zl_block_plan plan, least;
        struct zl_error err = {0};
        alone.first = first;
        assert_int_equal(zl_block_plan(&model, &s, 2, &plan, &err), 0);
        assert_int_equal(zl_block_plan(&model, &alone, 2, &least, &err), 0);
        const uint64_t row = 160 * (uint64_t)model.config.d * sizeof(float);
        print_message("  from layer %u: %llu bytes of activations, those of %u layers alone and %llu\n", first,
                      (unsigned long long)plan.activation_bytes, LAYERS - first,
                      (unsigned long long)(plan.activation_bytes - least.activation_bytes));
        assert_int_equal(plan.activation_bytes, least.activation_bytes + (first ? row : 0));
        assert_int_equal(plan.state_bytes, least.state_bytes);
        bytes[first] = plan.activation_bytes;
        assert_true(!first || bytes[first] < bytes[first - 1]);
    }
}

/* An adapter with another rank in each layer: buffers that layers share are as wide as the widest. */
static void ranks_may_differ_from_layer_to_layer(void **state)
{
    (void)state;
    enum { N = 3, RANKS = 2 * N };
    static const uint32_t rank[N] = {2, 24, 7};
    struct zl_adapter_module modules[RANKS];
    char name[RANKS][64];
    for (int i = 0; i < RANKS; i++) {
        const enum zl_role role = i % 2 ? ZL_W_DOWN : ZL_W_Q;
        struct zl_adapter_module *m = &modules[i];
        *m = (struct zl_adapter_module){.r = rank[i / 2], .in = zl_linear_in(&model.config, role), .out = zl_linear_out(&model.config, role),
                                        .scale = 1, .name = name[i]};
        zl_module_name(&model.config, (uint32_t)i / 2, role, name[i], sizeof name[i]);
        m->a = malloc(m->r * m->in * sizeof(float));
        m->b = malloc(m->r * m->out * sizeof(float));
        for (uint32_t j = 0; j < m->r * m->in; j++)
            m->a[j] = 0.1f * (float)sin((double)(j + (uint32_t)i));
        for (uint32_t j = 0; j < m->r * m->out; j++)
            m->b[j] = 0.1f * (float)cos((double)(j + (uint32_t)i));
    }
    const struct zl_adapter adapter = {.modules = modules, .n = RANKS};
    const struct zl_lora_spec still = {.rank = 1, .first = 2};
    struct zl_block_spec ways[] = {spec_of(&all, N), spec_of(&all, N), spec_of(&still, N), spec_of(&all, 2), spec_of(&all, N)};
    struct batch batch;
    float *expected = NULL, *g = NULL;
    ways[1].train = false;
    ways[3].n_own = 1;
    ways[3].n_shadow = 2;
    ways[4].recompute = ZL_RECOMPUTE_FULL;
    batch_make(&batch, &model, (int64_t[]){50, 33, 7}, 3, VOCAB, 1);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct zl_block b;
        ways[i].adapter = &adapter;
        open_block(&b, &ways[i]);
        loss_of(&b, &batch);
        const size_t bytes = (size_t)batch.tok.t * model.config.d * sizeof(float);
        if (!expected) {
            expected = malloc(bytes);
            g = malloc(b.n * sizeof(float));
            zl_block_forward(&b, 0, &batch.tok, batch.x);
            memcpy(expected, b.acts[N - 1].y, bytes);
            memcpy(g, b.g, b.n * sizeof(float));
        } else if (b.spec.train) {
            const uint64_t from = b.still;
            assert_memory_equal(b.g + from, g + from, (b.n - from) * sizeof(float));
        } else {
            zl_block_forward(&b, 0, &batch.tok, batch.x);
            assert_memory_equal(b.acts[N - 1].y, expected, bytes);
        }
        zl_block_close(&b);
    }
    for (int i = 0; i < RANKS; i++) {
        free(modules[i].a);
        free(modules[i].b);
    }
    free(expected);
    free(g);
    batch_free(&batch);
}

/* ---- whole runs ---------------------------------------------------------------------------------- */

static struct zl_train_options fresh(enum zl_schedule_kind schedule)
{
    static char names[64][32];
    static int runs;
    char *name = names[runs % 64];
    snprintf(name, sizeof names[0], "run%d", runs++);
    struct zl_train_options o = tiny_run_options(&tiny, NULL);
    o.output = tiny_run_folder(&tiny, name);
    o.schedule = schedule;
    o.steps = 6;
    o.train_layers = 3;
    o.micro_batch_tokens = 130;
    return o;
}

static void read_adapter(const struct zl_train_options *o, struct zl_adapter *a)
{
    char path[700];
    struct zl_error err = {0};
    snprintf(path, sizeof path, "%s/adapter", o->output);
    if (zl_adapter_read(path, a, NULL, 0, &err))
        fail_msg("%s", err.text);
}

static void schedules_with_exact_gradients_agree_to_the_bit(void **state)
{
    (void)state;
    static const struct {
        enum zl_schedule_kind schedule;
        uint64_t stages, interleave;
    } ways[] = {{ZL_SCHEDULE_GPIPE, 2, 1}, {ZL_SCHEDULE_GPIPE, 4, 1},    {ZL_SCHEDULE_1F1B, 3, 1},     {ZL_SCHEDULE_1F1B, 6, 1},
                {ZL_SCHEDULE_1F1B, 2, 3},  {ZL_SCHEDULE_ZEROLOCK, 1, 1}, {ZL_SCHEDULE_ZEROLOCK, 2, 1}, {ZL_SCHEDULE_ZEROLOCK, 4, 1},
                {ZL_SCHEDULE_SWEEP, 2, 1}};
    size_t size, n;
    struct zl_train_options o = fresh(ZL_SCHEDULE_BP);
    char *expected = tiny_run(o, &size);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        struct zl_train_options p = fresh(ways[i].schedule);
        p.stages = ways[i].stages;
        p.interleave = ways[i].interleave;
        p.window = 2;
        char *bytes = tiny_run(p, &n);
        print_message("  %s, %u stages: %s\n", zl_schedule_names[p.schedule], (unsigned)p.stages,
                      n == size && !memcmp(bytes, expected, n) ? "the same bytes" : "other bytes");
        assert_int_equal(n, size);
        assert_memory_equal(bytes, expected, n);
        free(bytes);
    }
    free(expected);
}

/* The adapter names the layers that were trained and no others, in its tensors and in layers_to_transform. */
static void the_adapter_is_of_the_trained_layers(void **state)
{
    (void)state;
    static const enum zl_schedule_kind kinds[] = {ZL_SCHEDULE_BP, ZL_SCHEDULE_ZEROLOCK, ZL_SCHEDULE_PIPEDREAM, ZL_SCHEDULE_ASYNC};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct zl_train_options o = fresh(kinds[i]);
        struct zl_adapter a;
        char path[700];
        size_t size;
        o.stages = 4;
        o.vertical_sync = true;
        free(tiny_run(o, &size));
        read_adapter(&o, &a);
        assert_int_equal(a.n, 3 * ZL_LINEARS);
        assert_int_equal(zl_adapter_first_layer(&a, &model.config, 0), 3);
        for (size_t m = 0; m < a.n; m++) {
            double moved = 0;
            for (uint32_t j = 0; j < a.modules[m].r * a.modules[m].out; j++)
                moved += fabs((double)a.modules[m].b[j]);
            assert_true(moved > 0);
        }
        zl_adapter_free(&a);
        snprintf(path, sizeof path, "%s/adapter/adapter_config.json", o.output);
        json_t *config = json_load_file(path, 0, NULL), *layers = json_object_get(config, "layers_to_transform");
        assert_int_equal(json_array_size(layers), 3);
        for (size_t k = 0; k < 3; k++)
            assert_int_equal(json_integer_value(json_array_get(layers, k)), 3 + k);
        json_decref(config);
    }
}

static void an_adapter_of_all_layers_names_none(void **state)
{
    (void)state;
    struct zl_train_options o = fresh(ZL_SCHEDULE_BP);
    char path[700];
    size_t size;
    o.train_layers = LAYERS;
    free(tiny_run(o, &size));
    snprintf(path, sizeof path, "%s/adapter/adapter_config.json", o.output);
    json_t *config = json_load_file(path, 0, NULL);
    assert_true(json_is_null(json_object_get(config, "layers_to_transform")));
    json_decref(config);
}

/* What an adapter to start from has below the line stays as it is and stays in the adapter. */
static void layers_below_keep_what_they_start_with(void **state)
{
    (void)state;
    static const enum zl_schedule_kind kinds[] = {ZL_SCHEDULE_BP, ZL_SCHEDULE_1F1B, ZL_SCHEDULE_ZEROLOCK};
    struct zl_train_options first = fresh(ZL_SCHEDULE_BP);
    struct zl_adapter before, after;
    size_t size;
    first.train_layers = 5;
    free(tiny_run(first, &size));
    read_adapter(&first, &before);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct zl_train_options o = fresh(kinds[i]);
        uint64_t bounds[] = {0, 2};
        size_t still = 0, moved = 0;
        o.init_adapter = first.output;
        o.train_layers = 2;
        o.weight_decay = 0.1; /* which moves what no gradient moves */
        o.bounds = kinds[i] == ZL_SCHEDULE_1F1B ? (struct zl_numbers){bounds, 2} : o.bounds; /* the line inside a stage */
        free(tiny_run(o, &size));
        read_adapter(&o, &after);
        assert_int_equal(after.n, before.n);
        for (size_t m = 0; m < before.n; m++) {
            const struct zl_adapter_module *x = &before.modules[m], *y = &after.modules[m];
            const bool below = zl_adapter_first_layer(&(struct zl_adapter){.modules = (struct zl_adapter_module *)(uintptr_t)x, .n = 1},
                                                      &model.config, 0) < 4;
            assert_string_equal(x->name, y->name);
            const bool same = !memcmp(x->a, y->a, x->r * x->in * sizeof(float)) && !memcmp(x->b, y->b, x->r * x->out * sizeof(float));
            assert_int_equal(same, below);
            *(same ? &still : &moved) += 1;
        }
        print_message("  %s: %zu modules still, %zu moved\n", zl_schedule_names[o.schedule], still, moved);
        zl_adapter_free(&after);
    }
    zl_adapter_free(&before);
}

static void impossible_requests_are_refused(void **state)
{
    (void)state;
    struct zl_train_options last = fresh(ZL_SCHEDULE_BP);
    size_t size;
    last.train_layers = 1;
    last.targets = (struct zl_strings){(const char *[]){"q_proj"}, 1};
    free(tiny_run(last, &size));
    for (int i = 0; i < 2; i++) {
        struct zl_train_options o = fresh(ZL_SCHEDULE_ZEROLOCK);
        struct zl_error err = {0};
        o.train_layers = i ? LAYERS - 1 : LAYERS + 1;
        o.stages = 3;
        assert_int_equal(zl_train_run(&o, &err), ZL_EUSAGE);
        print_message("  %s\n", err.text);
        assert_non_null(strstr(err.text, "--train-layers"));
    }
}

static int setup(void **state)
{
    (void)state;
    tiny_make(&tiny, LAYERS, 60);
    variant_open(&tiny, 256, &model);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    zl_model_close(&model);
    tiny_remove(&tiny);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_training_all_layers),
        cmocka_unit_test(layers_that_do_not_train_keep_nothing),
        cmocka_unit_test(ranks_may_differ_from_layer_to_layer),
        cmocka_unit_test(schedules_with_exact_gradients_agree_to_the_bit),
        cmocka_unit_test(the_adapter_is_of_the_trained_layers),
        cmocka_unit_test(an_adapter_of_all_layers_names_none),
        cmocka_unit_test(layers_below_keep_what_they_start_with),
        cmocka_unit_test(impossible_requests_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
