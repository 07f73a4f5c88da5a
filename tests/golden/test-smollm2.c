/*
 * A real model, SmolLM2-135M-Instruct as a GGUF file of Q4_1 and Q8_0 weights, against float64 results from the same dequantized weights.
 * Skipped where the file is absent: $ZL_SMOLLM2, or below the user's cache folder. Tolerances: golden/README.md, "smollm2".
 */
#include "tests/golden/golden.h"

#include <math.h>

#include "kernel/ops.h"

#define LAYERS 30
#define LOSS 1e-4     /* absolute */
#define GRADIENT 1e-4 /* relative, of norms and of root mean squares */

static char model_path[4096];

static int find_model(void **state)
{
    (void)state;
    const char *given = getenv("ZL_SMOLLM2"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (given && given[0])
        snprintf(model_path, sizeof model_path, "%s", given);
    else if (cache && cache[0])
        snprintf(model_path, sizeof model_path, "%s/zerolock/SmolLM2-135M-Instruct.Q4_1.gguf", cache);
    else
        snprintf(model_path, sizeof model_path, "%s/.cache/zerolock/SmolLM2-135M-Instruct.Q4_1.gguf", home ? home : "");
    return 0;
}

static void open_model(struct golden *g)
{
    const char *reference = zl_test_shared("golden/smollm2/golden.safetensors");
    struct zl_error err = {0};
    if (access(model_path, R_OK) != 0) {
        print_message("skipped: %s is not here (quickstart fetches it)\n", model_path);
        skip();
    }
    *g = (struct golden){0};
    if (zl_model_open(model_path, 256, &g->model, &err) || zl_safetensors_open(reference, &g->ref, &err))
        fail_msg("%s", err.text);
    assert_int_equal(g->model.config.layers, LAYERS);
}

static void open_block(struct zl_block *b, const struct golden *g, uint32_t first, uint32_t n, const struct zl_adapter *a,
                       int64_t tokens)
{
    struct zl_error err = {0};
    const struct zl_block_spec spec = {.first = first, .n_own = n, .train = a != NULL, .has_loss = true, .adapter = a,
                                       .tokens = tokens, .longest = tokens};
    if (zl_block_open(b, &g->model, &spec, 2, &err))
        fail_msg("%s", err.text);
}

static void read_adapter(struct zl_adapter *a)
{
    struct zl_error err = {0};
    if (zl_adapter_read(zl_test_shared("golden/smollm2/adapter"), a, NULL, 0, &err))
        fail_msg("%s", err.text);
}

/* Both prompts as one batch of two sequences: a step of the references. */
static void both_prompts(const struct golden *g, struct golden_batch *b)
{
    struct golden_batch one[2];
    golden_batch(g, "prompt0", &one[0]);
    golden_batch(g, "prompt1", &one[1]);
    const int64_t t = one[0].tok.t + one[1].tok.t;
    *b = (struct golden_batch){.longest = one[0].longest > one[1].longest ? one[0].longest : one[1].longest,
                               .n_labels = one[0].n_labels + one[1].n_labels};
    b->ids = calloc((size_t)t, sizeof *b->ids);
    b->labels = calloc((size_t)t, sizeof *b->labels);
    b->positions = calloc((size_t)t, sizeof *b->positions);
    b->seqs = calloc(2, sizeof *b->seqs);
    for (int64_t i = 0, at = 0; i < 2; at += one[i++].tok.t) {
        const size_t bytes = (size_t)one[i].tok.t * sizeof(int32_t);
        memcpy(b->ids + at, one[i].ids, bytes);
        memcpy(b->labels + at, one[i].labels, bytes);
        memcpy(b->positions + at, one[i].positions, bytes);
        b->seqs[i] = (struct zl_attn_seq){at, one[i].tok.t, at, one[i].tok.t};
        golden_batch_free(&one[i]);
    }
    b->tok = (struct zl_tokens){.t = t, .positions = b->positions, .n_seqs = 2, .seqs = b->seqs};
}

static void base_model_matches(void **state)
{
    (void)state;
    struct golden g;
    open_model(&g);
    const int64_t d = g.model.config.d, v = g.model.config.vocab;
    double sum = 0;
    uint64_t labels = 0;
    for (int n = 0; n < 2; n++) {
        struct golden_batch batch;
        struct zl_adapter none = {0};
        struct zl_block b;
        struct zl_loss loss;
        char what[64];
        snprintf(what, sizeof what, "prompt%d", n);
        golden_batch(&g, what, &batch);
        const int64_t t = batch.tok.t;
        open_block(&b, &g, 0, LAYERS, &none, t); /* as if to train, so that the hidden states of all layers stay */
        float *x = golden_embed(&g, &batch), *hidden = malloc((size_t)(32 * d) * sizeof *hidden);
        const float *y = zl_block_forward(&b, 0, &batch.tok, x);
        for (int l = 0; l < 32; l++) {
            const float *from = l < LAYERS ? b.acts[l].x : y;
            memcpy(hidden + l * d, from + (t - 1) * d, (size_t)d * sizeof *hidden);
        }
        zl_rmsnorm(&b.team, 1, d, hidden + 30 * d, g.model.norm, (float)g.model.config.norm_eps, hidden + 31 * d, NULL);
        snprintf(what, sizeof what, "base.prompt%d.hidden_last_token", n);
        golden_close_to(what, hidden, golden_tensor(&g, "%s", what), 1e-3, 1e-5);
        float *logits = golden_logits(&g, &b, y, t);
        snprintf(what, sizeof what, "base.prompt%d.last_logits", n);
        golden_close_to(what, logits + (t - 1) * v, golden_tensor(&g, "%s", what), 2e-4, 1e-5);
        const struct zl_tensor *likeliest = golden_tensor(&g, "base.prompt%d.argmax", n);
        for (int64_t i = 0; i < t; i++) {
            int32_t want, best = 0;
            memcpy(&want, (const char *)likeliest->data + i * 4, sizeof want);
            for (int32_t j = 1; j < v; j++)
                if (logits[i * v + j] > logits[i * v + best])
                    best = j;
            assert_int_equal(best, want);
        }
        zl_block_loss(&b, 0, &batch.tok, batch.labels, 0, false, &loss);
        snprintf(what, sizeof what, "base.prompt%d.seq_loss_sum", n);
        golden_scalar_close_to(what, loss.sum, golden_scalar(&g, 0, "%s", what), LOSS * (double)loss.n);
        assert_int_equal(loss.n, batch.n_labels);
        sum += loss.sum;
        labels += loss.n;
        free(logits);
        free(hidden);
        free(x);
        zl_block_close(&b);
        golden_batch_free(&batch);
    }
    golden_scalar_close_to("base.loss", sum / (double)labels, golden_scalar(&g, 0, "base.loss"), LOSS);
    golden_close(&g);
}

static void perplexity_matches(void **state)
{
    (void)state;
    struct golden g;
    struct golden_batch batch;
    struct zl_block b;
    struct zl_loss loss;
    open_model(&g);
    golden_batch(&g, "ppl", &batch);
    for (int64_t i = 0; i < batch.tok.t; i++)
        batch.labels[i] = i + 1 < batch.tok.t ? batch.ids[i + 1] : -1;
    open_block(&b, &g, 0, LAYERS, NULL, batch.tok.t);
    float *x = golden_embed(&g, &batch);
    zl_block_forward(&b, 0, &batch.tok, x);
    zl_block_loss(&b, 0, &batch.tok, batch.labels, 0, false, &loss);
    golden_scalar_close_to("base.ppl_loss", loss.sum / (double)loss.n, golden_scalar(&g, 0, "base.ppl_loss"), LOSS);
    free(x);
    zl_block_close(&b);
    golden_batch_free(&batch);
    golden_close(&g);
}

/* B = 0 in all projections: the products' shapes change, their bits may not. */
static void a_fresh_adapter_changes_no_bit_of_the_loss(void **state)
{
    (void)state;
    struct golden g;
    struct golden_batch batch;
    struct zl_loss loss[2];
    open_model(&g);
    both_prompts(&g, &batch);
    float *x = golden_embed(&g, &batch);
    for (int fresh = 0; fresh < 2; fresh++) {
        struct zl_block b;
        struct zl_error err = {0};
        const struct zl_lora_spec lora = {.rank = 8, .targets = (1 << ZL_LINEARS) - 1, .alpha = 16};
        const struct zl_block_spec spec = {.n_own = LAYERS, .has_loss = true, .lora = fresh ? &lora : NULL, .seed = 1,
                                           .tokens = batch.tok.t, .longest = batch.longest};
        if (zl_block_open(&b, &g.model, &spec, 1 + fresh, &err))
            fail_msg("%s", err.text);
        zl_block_forward(&b, 0, &batch.tok, x);
        zl_block_loss(&b, 0, &batch.tok, batch.labels, 0, false, &loss[fresh]);
        zl_block_close(&b);
    }
    assert_memory_equal(&loss[0].sum, &loss[1].sum, sizeof(double));
    free(x);
    golden_batch_free(&batch);
    golden_close(&g);
}

/* The norms of a block's own gradients, tensor by tensor: q_proj A, B, v_proj A, B of each layer. */
static void gradient_norms(const struct zl_block *b, double norm[LAYERS][2][2])
{
    static const enum zl_role roles[2] = {ZL_W_Q, ZL_W_V};
    for (uint32_t i = 0; i < LAYERS; i++)
        for (int r = 0; r < 2; r++)
            for (int side = 0; side < 2; side++) {
                const struct zl_lora_module *m = &b->own.layer[i].module[roles[r]];
                const struct zl_config *c = &b->model->config;
                const float *from = b->g + (side ? m->bt : m->a);
                const uint64_t n = (uint64_t)m->r * (side ? zl_linear_out(c, roles[r]) : zl_linear_in(c, roles[r]));
                double sum = 0;
                for (uint64_t j = 0; j < n; j++)
                    sum += (double)from[j] * (double)from[j];
                norm[i][r][side] = sqrt(sum);
            }
}

/* Where adapters are listed in the order of their names, layer 10 stands before layer 2. */
static int by_layer_name(const void *x, const void *y)
{
    char a[12], b[12];
    snprintf(a, sizeof a, "%d.", *(const int *)x);
    snprintf(b, sizeof b, "%d.", *(const int *)y);
    return strcmp(a, b);
}

static void check_gradients(const struct golden *g, const struct zl_block *b)
{
    double norm[LAYERS][2][2], squares = 0, worst = 0, total = golden_scalar(g, 0, "lora.grad_norm");
    int order[LAYERS];
    golden_flat_close_to(g, b, b->g, "lora.grad.", 1e-5, GRADIENT);
    gradient_norms(b, norm);
    for (int i = 0; i < LAYERS; i++)
        order[i] = i;
    qsort(order, LAYERS, sizeof *order, by_layer_name);
    for (int i = 0; i < LAYERS * 4; i++) {
        double got = norm[order[i / 4]][i / 2 % 2][i % 2], want = golden_scalar(g, i, "lora.grad_norm_per_tensor");
        squares += got * got;
        worst = fmax(worst, fabs(got - want) / want);
        if (!(fabs(got - want) <= GRADIENT * want))
            fail_msg("lora.grad_norm_per_tensor %d: %.9g, expected %.9g", i, got, want);
    }
    print_message("  %-60s worst relative difference %.2g <= %.2g\n", "lora.grad_norm_per_tensor", worst, GRADIENT);
    golden_scalar_close_to("lora.grad_norm", sqrt(squares), total, GRADIENT * total);
}

/* K blocks in lockstep with early forwarding; K = 1 is plain backpropagation. */
static void trajectory(uint32_t k, const char *prefix)
{
    static const struct zl_optimizer adamw = {
        .lr = 1e-3f, .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .weight_decay = 0.01f, .clip = 1};
    struct golden g;
    struct golden_batch batch;
    struct zl_block block[3];
    struct zl_adapter a;
    char what[64];
    open_model(&g);
    read_adapter(&a);
    both_prompts(&g, &batch);
    for (uint32_t i = 0; i < k; i++)
        open_block(&block[i], &g, i * LAYERS / k, LAYERS / k, &a, batch.tok.t);
    const size_t bytes = (size_t)batch.tok.t * g.model.config.d * sizeof(float);
    float *x[4] = {golden_embed(&g, &batch)};
    for (uint32_t i = 0; i < k; i++)
        x[i + 1] = malloc(bytes);
    for (int64_t step = 0; step < 5; step++) {
        for (uint32_t i = 0; i < k; i++) /* handed on as through a ring: a copy */
            memcpy(x[i + 1], zl_block_forward(&block[i], 0, &batch.tok, x[i]), bytes);
        for (uint32_t i = 0; i < k; i++) {
            struct zl_loss loss;
            zl_block_loss(&block[i], 0, &batch.tok, batch.labels, (float)(1.0 / (double)batch.n_labels), true, &loss);
            snprintf(what, sizeof what, "%sloss", prefix);
            golden_scalar_close_to(what, loss.sum / (double)loss.n, golden_scalar(&g, step * k + i, "%s", what), LOSS);
            if (k == 1 && step == 0) {
                golden_scalar_close_to("lora.loss", loss.sum / (double)loss.n, golden_scalar(&g, 0, "lora.loss"), LOSS);
                check_gradients(&g, &block[0]);
            }
            double norm = zl_block_update(&block[i], &adamw, step + 1);
            snprintf(what, sizeof what, "%sgrad_norm", prefix);
            double want = golden_scalar(&g, step * k + i, "%s", what);
            golden_scalar_close_to(what, norm, want, GRADIENT * want);
        }
    }
    for (uint32_t i = 0; i <= k; i++)
        free(x[i]);
    for (uint32_t i = 0; i < k; i++)
        zl_block_close(&block[i]);
    zl_adapter_free(&a);
    golden_batch_free(&batch);
    golden_close(&g);
}

static void gradients_and_five_adamw_steps_match(void **state)
{
    (void)state;
    trajectory(1, "adamw.");
}

static void block_local_training_matches(void **state)
{
    (void)state;
    trajectory(3, "block3.lockstep.");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base_model_matches),
        cmocka_unit_test(perplexity_matches),
        cmocka_unit_test(a_fresh_adapter_changes_no_bit_of_the_loss),
        cmocka_unit_test(gradients_and_five_adamw_steps_match),
        cmocka_unit_test(block_local_training_matches),
    };
    return cmocka_run_group_tests(tests, find_model, NULL);
}
