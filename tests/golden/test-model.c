/*
 * The model against the references: hidden states of each layer, logits, loss, adapter gradients, five AdamW steps, and block-local
 * training with two and three blocks, all made in float64 by others. Tolerances: golden/README.md, "Tolerances".
 */
#include "tests/golden/golden.h"

#include <math.h>

static const char *const models[] = {"llama", "llama3"};

static void open_model(struct golden *g, const char *name)
{
    char model[128], ref[128];
    snprintf(model, sizeof model, "golden/models/%s", name);
    snprintf(ref, sizeof ref, "golden/models/%s/golden.safetensors", name);
    golden_open(g, model, ref, 256);
}

static void read_adapter(const char *name, struct zl_adapter *a)
{
    char path[128];
    struct zl_error err = {0};
    snprintf(path, sizeof path, "golden/models/%s/adapter", name);
    if (zl_adapter_read(zl_test_shared(path), a, NULL, 0, &err))
        fail_msg("%s", err.text);
}

static void open_block(struct zl_block *b, const struct golden *g, uint32_t first, uint32_t n, const struct zl_adapter *a, int threads)
{
    struct zl_error err = {0};
    const struct zl_block_spec spec = {
        .first = first, .n_own = n, .train = true, .has_loss = true, .adapter = a, .tokens = 66, .longest = 66};
    if (zl_block_open(b, &g->model, &spec, threads, &err))
        fail_msg("%s", err.text);
}

static void hidden_states_logits_and_loss_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        for (int n = 0; n < 2; n++) {
            struct golden g;
            struct golden_batch batch;
            struct zl_block b;
            char prefix[32], what[128];
            open_model(&g, models[i]);
            const uint32_t layers = g.model.config.layers;
            snprintf(prefix, sizeof prefix, "batch%d", n);
            golden_batch(&g, prefix, &batch);
            open_block(&b, &g, 0, layers, NULL, 2);
            float *x = golden_embed(&g, &batch);
            const float *y = zl_block_forward(&b, 0, &batch.tok, x);
            for (uint32_t l = 0; n == 0 && l <= layers; l++) {
                const float *h = l < layers ? b.acts[l].x : y;
                snprintf(what, sizeof what, l < layers ? "base.%s.hidden.in.%u" : "base.%s.hidden.last", prefix, l);
                golden_close_to(what, h, golden_tensor(&g, "%s", what), 2e-4, 1e-5);
            }
            float *logits = golden_logits(&g, &b, y, batch.tok.t);
            snprintf(what, sizeof what, "base.%s.logits", prefix);
            golden_close_to(what, logits, golden_tensor(&g, "%s", what), 2e-4, 1e-5);
            struct zl_loss loss;
            zl_block_loss(&b, 0, &batch.tok, batch.labels, 0, false, &loss);
            golden_scalar_close_to("loss", loss.sum / (double)loss.n, golden_scalar(&g, 0, "base.%s.loss", prefix), 1e-5);
            free(logits);
            free(x);
            zl_block_close(&b);
            golden_batch_free(&batch);
            golden_close(&g);
        }
}

static void adapter_gradients_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct golden g;
        struct golden_batch batch;
        struct zl_block b;
        struct zl_adapter a;
        struct zl_loss loss;
        open_model(&g, models[i]);
        read_adapter(models[i], &a);
        golden_batch(&g, "batch0", &batch);
        open_block(&b, &g, 0, g.model.config.layers, &a, 2);
        float *x = golden_embed(&g, &batch);
        zl_block_forward(&b, 0, &batch.tok, x);
        zl_block_loss(&b, 0, &batch.tok, batch.labels, (float)(1.0 / (double)batch.n_labels), true, &loss);
        golden_scalar_close_to("lora.batch0.loss", loss.sum / (double)loss.n, golden_scalar(&g, 0, "lora.batch0.loss"), 1e-5);
        golden_flat_close_to(&g, &b, b.g, "lora.batch0.grad.", 1e-3, 1e-4);
        double norm = 0;
        for (uint64_t j = 0; j < b.n; j++)
            norm += (double)b.g[j] * (double)b.g[j];
        double want = golden_scalar(&g, 0, "lora.batch0.grad_norm");
        golden_scalar_close_to("lora.batch0.grad_norm", sqrt(norm), want, 3e-5 * want);
        free(x);
        zl_block_close(&b);
        zl_adapter_free(&a);
        golden_batch_free(&batch);
        golden_close(&g);
    }
}

static const struct zl_optimizer adamw = {
    .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.01f, .clip = 1};

/* K blocks in lockstep with early forwarding; K = 1 is plain backpropagation. */
static void trajectory(const char *name, uint32_t k, const char *prefix, float clip)
{
    struct golden g;
    struct golden_batch batch[2];
    struct zl_block block[3];
    struct zl_adapter a;
    struct zl_optimizer o = adamw;
    char what[128];
    o.clip = clip;
    open_model(&g, name);
    read_adapter(name, &a);
    golden_batch(&g, "batch0", &batch[0]);
    golden_batch(&g, "batch1", &batch[1]);
    const uint32_t layers = g.model.config.layers;
    for (uint32_t i = 0; i < k; i++)
        open_block(&block[i], &g, i * layers / k, (i + 1) * layers / k - i * layers / k, &a, 1 + (int)(i % 2));
    for (int64_t step = 0; step < 5; step++) {
        const struct golden_batch *bt = &batch[step % 2];
        const size_t bytes = (size_t)bt->tok.t * g.model.config.d * sizeof(float);
        float *x[4] = {golden_embed(&g, bt)};
        for (uint32_t i = 0; i < k; i++) { /* handed on as through a ring: a copy */
            x[i + 1] = malloc(bytes);
            memcpy(x[i + 1], zl_block_forward(&block[i], 0, &bt->tok, x[i]), bytes);
        }
        for (uint32_t i = 0; i < k; i++) {
            struct zl_loss loss;
            zl_block_loss(&block[i], 0, &bt->tok, bt->labels, (float)(1.0 / (double)bt->n_labels), true, &loss);
            snprintf(what, sizeof what, "%sloss", prefix);
            golden_scalar_close_to(what, loss.sum / (double)loss.n, golden_scalar(&g, step * k + i, "%s", what), 5e-5);
            snprintf(what, sizeof what, "%sgrad0.", prefix);
            if (step == 0 && k > 1)
                golden_flat_close_to(&g, &block[i], block[i].g, what, 1e-3, 1e-4);
            double norm = zl_block_update(&block[i], &o, step + 1);
            snprintf(what, sizeof what, "%sgrad_norm", prefix);
            double want = golden_scalar(&g, step * k + i, "%s", what);
            golden_scalar_close_to(what, norm, want, 1e-4 * want);
        }
        for (uint32_t i = 0; i <= k; i++)
            free(x[i]);
    }
    for (uint32_t i = 0; i < k; i++) {
        snprintf(what, sizeof what, "%sfinal.", prefix);
        golden_flat_close_to(&g, &block[i], block[i].w, what, 5e-3, 1e-3);
        zl_block_close(&block[i]);
    }
    zl_adapter_free(&a);
    golden_batch_free(&batch[0]);
    golden_batch_free(&batch[1]);
    golden_close(&g);
}

static void five_adamw_steps_match(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        trajectory(models[i], 1, "adamw.", 1);
        trajectory(models[i], 1, "adamw_noclip.", 0);
    }
}

static void block_local_training_matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        trajectory(models[i], 2, "block2.lockstep.", 1);
        trajectory(models[i], 3, "block3.lockstep.", 1);
    }
}

/* The shadow is the downstream, computed twice: a block whose look-ahead reaches the last layer, with the same adapters there, gets
 * backpropagation's own gradients. */
static void full_look_ahead_is_backpropagation(void **state)
{
    (void)state;
    struct golden g;
    struct golden_batch batch;
    struct zl_adapter a;
    struct zl_block whole, ahead;
    struct zl_loss loss;
    struct zl_error err = {0};
    open_model(&g, "llama");
    read_adapter("llama", &a);
    golden_batch(&g, "batch0", &batch);
    open_block(&whole, &g, 0, 5, &a, 1);
    const struct zl_block_spec spec = {
        .n_own = 2, .n_shadow = 3, .train = true, .has_loss = true, .adapter = &a, .tokens = 66, .longest = 66};
    assert_int_equal(zl_block_open(&ahead, &g.model, &spec, 2, &err), 0);
    float *x = golden_embed(&g, &batch), weight = (float)(1.0 / (double)batch.n_labels);
    zl_block_forward(&whole, 0, &batch.tok, x);
    zl_block_loss(&whole, 0, &batch.tok, batch.labels, weight, true, &loss);
    zl_block_forward(&ahead, 0, &batch.tok, x);
    zl_block_loss(&ahead, 0, &batch.tok, batch.labels, weight, true, &loss);
    golden_flat_close_to(&g, &ahead, ahead.g, "lora.batch0.grad.", 1e-3, 1e-4);
    assert_memory_equal(ahead.g, whole.g, ahead.n_own * sizeof(float));
    free(x);
    zl_block_close(&whole);
    zl_block_close(&ahead);
    zl_adapter_free(&a);
    golden_batch_free(&batch);
    golden_close(&g);
}

/* What the backward computes again has the same bits as what it could have kept, in less memory. */
static void recomputing_gives_the_same_gradients(void **state)
{
    (void)state;
    struct golden g;
    struct golden_batch batch;
    struct zl_adapter a;
    struct zl_error err = {0};
    float *kept = NULL;
    uint64_t bytes = UINT64_MAX;
    open_model(&g, "llama");
    read_adapter("llama", &a);
    golden_batch(&g, "batch0", &batch);
    float *x = golden_embed(&g, &batch), weight = (float)(1.0 / (double)batch.n_labels);
    for (int mode = ZL_RECOMPUTE_NONE; mode <= ZL_RECOMPUTE_FULL; mode++) {
        struct zl_block b;
        struct zl_loss loss;
        struct zl_block_plan plan;
        const struct zl_block_spec spec = {.n_own = 3, .n_shadow = 2, .train = true, .has_loss = true, .adapter = &a,
                                           .recompute = (enum zl_recompute)mode, .tokens = 66, .longest = 66};
        assert_int_equal(zl_block_plan(&g.model, &spec, 2, &plan, &err), 0);
        print_message("  mode %d: %llu bytes of activations\n", mode, (unsigned long long)plan.activation_bytes);
        assert_true(plan.activation_bytes < bytes);
        bytes = plan.activation_bytes;
        assert_int_equal(zl_block_open(&b, &g.model, &spec, 2, &err), 0);
        zl_block_forward(&b, 0, &batch.tok, x);
        zl_block_loss(&b, 0, &batch.tok, batch.labels, weight, true, &loss);
        if (!kept) {
            kept = malloc(b.n * sizeof *kept);
            memcpy(kept, b.g, b.n * sizeof *kept);
        }
        assert_memory_equal(b.g, kept, b.n * sizeof *kept);
        zl_block_close(&b);
    }
    free(kept);
    free(x);
    zl_adapter_free(&a);
    golden_batch_free(&batch);
    golden_close(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_states_logits_and_loss_match), cmocka_unit_test(adapter_gradients_match),
        cmocka_unit_test(five_adamw_steps_match),              cmocka_unit_test(block_local_training_matches),
        cmocka_unit_test(full_look_ahead_is_backpropagation),
        cmocka_unit_test(recomputing_gives_the_same_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
