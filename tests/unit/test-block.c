/*
 * A block's training arithmetic on a tiny model: the start point, accumulation, batches without labels, gradients against slopes of the
 * loss, adapters that do not move, and sizes beyond 32 bits.
 */
#include "tests/unit/test.h"

#include <math.h>

#include "kernel/attention.h"
#include "kernel/gemm.h"
#include "kernel/head.h"
#include "pipe/packet.h"
#include "pipe/pipeline.h"
#include "pipe/ring.h"
#include "tests/variant.h"

enum { LAYERS = 4, VOCAB = 260, ALL = (1 << ZL_LINEARS) - 1 };

static struct tiny tiny;
static struct zl_model model;
static const struct zl_lora_spec lora = {.rank = 4, .targets = ALL, .alpha = 8};
static const struct zl_optimizer adamw = {.lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .weight_decay = 0.1f, .clip = 1};

static int open_tiny(void **state)
{
    (void)state;
    tiny_make(&tiny, LAYERS, 1);
    variant_open(&tiny, 256, &model);
    return 0;
}

static int remove_tiny(void **state)
{
    (void)state;
    zl_model_close(&model);
    tiny_remove(&tiny);
    return 0;
}

static void open_block(struct zl_block *b, const struct zl_block_spec *spec)
{
    struct zl_error err = {0};
    struct zl_block_spec s = *spec;
    s.has_loss = true;
    s.tokens = s.longest = 160;
    if (zl_block_open(b, &model, &s, 2, &err))
        fail_msg("%s", err.text);
}

static struct zl_loss loss_of(struct zl_block *b, const struct batch *batch, float weight, bool backward)
{
    struct zl_loss loss;
    zl_block_forward(b, 0, &batch->tok, batch->x);
    zl_block_loss(b, 0, &batch->tok, batch->labels, weight, backward, &loss);
    return loss;
}

static void a_fresh_adapter_changes_no_bit_of_the_loss(void **state)
{
    (void)state;
    static const struct zl_block_spec shapes[] = {{.n_own = LAYERS}, {.n_own = 1, .n_shadow = 2}, {.first = 1, .n_own = 2}};
    struct batch batch;
    batch_make(&batch, &model, (int64_t[]){50, 33, 7}, 3, VOCAB, 1);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct zl_block base, fresh;
        struct zl_block_spec with = shapes[i];
        with.lora = &lora;
        with.seed = 7;
        with.train = true;
        open_block(&base, &shapes[i]);
        open_block(&fresh, &with);
        assert_memory_equal(zl_block_forward(&fresh, 0, &batch.tok, batch.x), zl_block_forward(&base, 0, &batch.tok, batch.x),
                            (size_t)batch.tok.t * model.config.d * sizeof(float));
        struct zl_loss want = loss_of(&base, &batch, 0, false), got = loss_of(&fresh, &batch, 0, false);
        assert_true(want.sum > 0);
        assert_memory_equal(&got.sum, &want.sum, sizeof want.sum);
        zl_block_close(&base);
        zl_block_close(&fresh);
    }
    batch_free(&batch);
}

/* The same where one product takes several passes over K: an adapter's zero columns must not move the cuts. */
static void a_term_of_zeros_changes_no_bit_of_a_product(void **state)
{
    (void)state;
    static const int64_t ks[] = {64, 250, 512, 576, 1000, 1024, 1536, 3072};
    enum { M = 37, N = 45, R = 64, K = 3072 };
    float *x = malloc(sizeof(float) * M * K), *w = malloc(sizeof(float) * N * K), *xa = malloc(sizeof(float) * M * R);
    float *zeros = calloc(N * R, sizeof(float)), *y[2] = {malloc(sizeof(float) * M * N), malloc(sizeof(float) * M * N)};
    struct zl_team team = {.threads = 1, .scratch_bytes = zl_gemm_scratch_bytes(1)};
    team.scratch = aligned_alloc(64, (team.scratch_bytes + 63) / 64 * 64);
    for (int64_t i = 0; i < N * K; i++) {
        w[i] = (float)sin((double)i);
        if (i < M * K)
            x[i] = (float)cos((double)i * 1.7);
        if (i < M * R)
            xa[i] = (float)cos((double)i * 2.3);
    }
    for (size_t i = 0; i < sizeof ks / sizeof ks[0] * 3; i++)
        for (int64_t r = 4; r <= R; r *= 4) {
            const int64_t k = ks[i / 3], m = i % 3 == 0 ? 1 : i % 3 == 1 ? 5 : M; /* few rows go other ways */
            for (int terms = 1; terms <= 2; terms++) {
                struct zl_gemm p = {.m = m, .n = N, .n_terms = terms, .c = y[terms - 1], .ldc = N};
                p.term[0] = (struct zl_gemm_term){.a = x, .lda = k, .b = w, .b_type = ZL_F32, .b_layout = ZL_B_NK, .ldb = k,
                                                  .k = k, .alpha = 1};
                p.term[1] = (struct zl_gemm_term){.a = xa, .lda = r, .b = zeros, .b_type = ZL_F32, .b_layout = ZL_B_KN, .ldb = N,
                                                  .k = r, .alpha = 2};
                zl_gemm(&team, &p);
            }
            if (memcmp(y[0], y[1], sizeof(float) * (size_t)m * N) != 0)
                fail_msg("%lld rows, K %lld: %lld zero columns change the product", (long long)m, (long long)k, (long long)r);
        }
    free(team.scratch);
    free(y[0]), free(y[1]);
    free(zeros), free(xa), free(w), free(x);
}

/* All labels but the last `n` of each sequence taken away. */
static void keep_labels(struct batch *b, const int *n)
{
    for (int s = 0; s < b->tok.n_seqs; s++) {
        const struct zl_attn_seq *q = &b->seqs[s];
        for (int64_t i = 0; i < q->q_len - 1 - n[s]; i++)
            b->labels[q->q_begin + i] = -1;
    }
}

/* B away from zero, so that every gradient is there. */
static void open_moved(struct zl_block *b, uint32_t first, uint32_t n_own, uint32_t n_shadow)
{
    const struct zl_block_spec spec = {.first = first, .n_own = n_own, .n_shadow = n_shadow, .lora = &lora, .seed = 7, .train = true};
    open_block(b, &spec);
    for (uint64_t i = 0; i < b->n; i++)
        b->w[i] += 0.02f * (float)sin((double)i);
}

static void accumulated_micro_batches_give_the_gradient_of_the_batch(void **state)
{
    (void)state;
    struct zl_block whole, parts;
    struct batch both, one[2];
    batch_make(&both, &model, (int64_t[]){10, 120}, 2, VOCAB, 2);
    keep_labels(&both, (int[]){3, 97});
    open_moved(&whole, 0, 2, 1);
    open_moved(&parts, 0, 2, 1);
    struct zl_loss all = loss_of(&whole, &both, 0.01f, true);
    assert_int_equal(all.n, 100);
    double sum = 0, squares = 0, difference = 0;
    for (int i = 0, at = 0; i < 2; at += (int)one[i++].tok.t) {
        batch_make(&one[i], &model, (int64_t[]){i ? 120 : 10}, 1, VOCAB, 3);
        const size_t t = (size_t)one[i].tok.t;
        memcpy(one[i].labels, both.labels + at, t * sizeof(int32_t));
        memcpy(one[i].x, both.x + at * model.config.d, t * model.config.d * sizeof(float));
        struct zl_loss loss = loss_of(&parts, &one[i], 0.01f, true);
        assert_int_equal(loss.n, i ? 97 : 3);
        sum += loss.sum;
    }
    for (uint64_t i = 0; i < whole.n; i++) {
        squares += (double)whole.g[i] * (double)whole.g[i];
        difference += ((double)whole.g[i] - (double)parts.g[i]) * ((double)whole.g[i] - (double)parts.g[i]);
    }
    print_message("  relative difference of gradients %.2g <= 1e-6, of losses %.2g\n", sqrt(difference / squares),
                  fabs(sum / all.sum - 1));
    assert_true(squares > 0 && sqrt(difference / squares) <= 1e-6);
    assert_true(fabs(sum / all.sum - 1) <= 1e-6);
    batch_free(&both);
    batch_free(&one[0]);
    batch_free(&one[1]);
    zl_block_close(&whole);
    zl_block_close(&parts);
}

static void a_batch_without_labels_trains_nothing(void **state)
{
    (void)state;
    struct zl_block b;
    struct batch batch;
    open_moved(&b, 0, LAYERS, 0);
    batch_make(&batch, &model, (int64_t[]){20, 2}, 2, VOCAB, 4);
    loss_of(&b, &batch, 1.0f / 20, true);
    assert_true(zl_block_update(&b, &adamw, 1) > 0); /* moments that would move on by themselves */
    const size_t bytes = b.n * sizeof(float);
    float *kept = malloc(3 * bytes);
    memcpy(kept, b.w, bytes), memcpy(kept + b.n, b.m, bytes), memcpy(kept + 2 * b.n, b.v, bytes);
    keep_labels(&batch, (int[]){0, 0});
    struct zl_loss loss = loss_of(&b, &batch, INFINITY, true); /* 1 / labels of the step */
    assert_int_equal(loss.n, 0);
    assert_true(loss.sum == 0);
    for (uint64_t i = 0; i < b.n; i++)
        assert_true(b.g[i] == 0);
    assert_true(zl_block_update(&b, &adamw, 2) == 0);
    assert_memory_equal(b.w, kept, bytes);
    assert_memory_equal(b.m, kept + b.n, bytes);
    assert_memory_equal(b.v, kept + 2 * b.n, bytes);
    free(kept);
    batch_free(&batch);
    zl_block_close(&b);
}

/* A stage whose layers the adapter to go on with leaves out. */
static void a_block_without_adapters_trains_nothing(void **state)
{
    (void)state;
    struct zl_block b;
    struct batch batch;
    const struct zl_adapter none = {0};
    const struct zl_lora_spec no_targets = {.rank = 1};
    const struct zl_block_spec specs[] = {{.n_own = 2, .adapter = &none, .train = true}, {.n_own = 2, .lora = &no_targets, .train = true}};
    batch_make(&batch, &model, (int64_t[]){20}, 1, VOCAB, 4);
    for (int i = 0; i < 2; i++) {
        char name[96];
        open_block(&b, &specs[i]);
        assert_int_equal(b.n, 0);
        assert_true(loss_of(&b, &batch, 1.0f / 19, true).sum > 0);
        assert_true(zl_block_update(&b, &adamw, 1) == 0);
        zl_block_unmoved(&b, name, sizeof name);
        assert_string_equal(name, "");
        zl_block_close(&b);
    }
    batch_free(&batch);
}

static void a_step_without_labels_is_counted_as_skipped(void **state)
{
    (void)state;
    struct zl_pipeline l;
    struct zl_report report;
    struct zl_error err = {0};
    struct batch batch;
    char note[256];
    const struct zl_core_group group = {.n = 1};
    const struct zl_partition p = {.layers = LAYERS, .n = 1, .cut = {{.n_own = LAYERS}}};
    const struct zl_pipeline_options o = {.lora = &lora, .tokens = 32, .seqs = 2, .longest = 32, .ring_depth = 2,
                                          .optimizer = adamw, .schedule = &zl_schedules[ZL_SCHEDULE_BP], .n_workers = 1,
                                          .worker_of = (const uint32_t[1]){0}, .groups = &group};
    if (zl_pipeline_open(&l, &model, &p, &o, note, &err) || zl_pipeline_start(&l, &err))
        fail_msg("%s", err.text);
    batch_make(&batch, &model, (int64_t[]){32}, 1, VOCAB, 9);
    for (int step = 0; step < 2; step++) {
        struct zl_packet *in = zl_pipeline_slot(&l, -1);
        if (step)
            keep_labels(&batch, (int[]){0});
        *in = (struct zl_packet){.kind = ZL_TRAIN, .last_of_step = 1, .n_tokens = 32, .n_seqs = 1, .step = (uint64_t)step + 1,
                                 .micro = (uint64_t)step, .weight = 1.0f / 31, .lr = 1e-3f};
        memcpy(zl_packet_at(in, l.feed_layout.ids), batch.ids, 32 * sizeof(int32_t));
        memcpy(zl_packet_at(in, l.feed_layout.labels), batch.labels, 32 * sizeof(int32_t));
        memcpy(zl_packet_at(in, l.feed_layout.positions), batch.positions, 32 * sizeof(int32_t));
        memcpy(zl_packet_at(in, l.feed_layout.seqs), batch.seqs, sizeof *batch.seqs);
        zl_pipeline_send(&l, in);
        while (!zl_pipeline_report(&l, 1000000000, &report))
            ;
        assert_int_equal(report.n, step ? 0 : 31);
        assert_int_equal(report.updated, !step);
        assert_int_equal(report.skipped, step);
        assert_true(isfinite(report.loss_sum) && isfinite(report.grad_norm));
    }
    zl_pipeline_finish(&l);
    zl_pipeline_join(&l);
    zl_pipeline_close(&l);
    batch_free(&batch);
}

static void a_gradient_that_is_not_finite_is_left_out(void **state)
{
    (void)state;
    static const float bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        struct zl_block b;
        open_moved(&b, 0, 1, 1);
        float *kept = malloc(b.n * sizeof(float));
        memcpy(kept, b.w, b.n * sizeof(float));
        b.g[b.n / 2] = bad[i];
        assert_false(isfinite(zl_block_update(&b, &adamw, 1)));
        assert_memory_equal(b.w, kept, b.n * sizeof(float));
        for (uint64_t j = 0; j < b.n; j++)
            assert_true(b.g[j] == 0 && b.m[j] == 0);
        free(kept);
        zl_block_close(&b);
    }
}

/* Along its own gradient, from every tensor of own and shadow layers, the loss rises as the gradient says. */
static void gradients_are_the_slopes_of_the_loss(void **state)
{
    (void)state;
    struct zl_block b;
    struct batch batch;
    double worst = 0;
    open_moved(&b, 1, 2, 1);
    batch_make(&batch, &model, (int64_t[]){31, 12}, 2, VOCAB, 5);
    loss_of(&b, &batch, 1, true);
    float *kept = malloc(b.n * sizeof(float));
    memcpy(kept, b.w, b.n * sizeof(float));
    for (uint32_t layer = 0; layer < 3; layer++)
        for (int role = 0; role < ZL_LINEARS; role++)
            for (int side = 0; side < 2; side++) {
                const struct zl_lora *l = layer < 2 ? &b.own : &b.shadow;
                const struct zl_lora_module *m = &l->layer[layer < 2 ? layer : 0].module[role];
                const uint64_t at = (layer < 2 ? 0 : b.n_own) + (side ? m->bt : m->a);
                const uint64_t n = (uint64_t)m->r * (side ? zl_linear_out(&model.config, role) : zl_linear_in(&model.config, role));
                double norm = 0, side_loss[2];
                for (uint64_t i = 0; i < n; i++)
                    norm += (double)b.g[at + i] * (double)b.g[at + i];
                norm = sqrt(norm);
                assert_true(norm > 0);
                const double step = 0.3 / norm < 0.03 ? 0.3 / norm : 0.03;
                for (int s = 0; s < 2; s++) {
                    for (uint64_t i = 0; i < n; i++)
                        b.w[at + i] = kept[at + i] + (float)((s ? -step : step) * (double)b.g[at + i] / norm);
                    side_loss[s] = loss_of(&b, &batch, 0, false).sum;
                }
                memcpy(b.w, kept, b.n * sizeof(float));
                worst = fmax(worst, fabs((side_loss[0] - side_loss[1]) / (2 * step) / norm - 1));
            }
    print_message("  worst relative difference %.2g <= 1e-2\n", worst);
    assert_true(worst <= 1e-2);
    free(kept);
    batch_free(&batch);
    zl_block_close(&b);
}

/* The same for a map that trains: the start is what was given; every step moves it; with weight decay alone it stays. */
static void a_map_that_trains_has_the_slopes_of_the_loss(void **state)
{
    (void)state;
    struct zl_block b;
    struct batch batch;
    const uint64_t d = model.config.d, n[2] = {d * d, d};
    float *map = malloc((d * d + d) * sizeof(float));
    for (uint64_t i = 0; i < d * d + d; i++)
        map[i] = (i < d * d && i / d == i % d ? 1 : 0) + 0.02f * (float)sin((double)i);
    struct zl_block_spec spec = {.first = 1, .n_own = 1, .n_shadow = 1, .lora = &lora, .seed = 7, .train = true,
                                 .map = true, .map_a = map, .map_b = map + d * d};
    open_block(&b, &spec);
    const uint64_t adapters = b.n;
    zl_block_close(&b);
    spec.train_map = true;
    open_block(&b, &spec);
    assert_int_equal(b.n, adapters + d * d + d);
    assert_memory_equal(b.w + adapters, map, (d * d + d) * sizeof(float));
    batch_make(&batch, &model, (int64_t[]){31, 12}, 2, VOCAB, 5);
    loss_of(&b, &batch, 1, true);
    double worst = 0;
    for (int part = 0; part < 2; part++) {
        const uint64_t at = adapters + (part ? d * d : 0);
        double norm = 0, side_loss[2];
        for (uint64_t i = 0; i < n[part]; i++)
            norm += (double)b.g[at + i] * (double)b.g[at + i];
        norm = sqrt(norm);
        assert_true(norm > 0);
        const double step = 0.3 / norm < 0.03 ? 0.3 / norm : 0.03;
        for (int s = 0; s < 2; s++) {
            for (uint64_t i = 0; i < n[part]; i++)
                b.w[at + i] = map[at - adapters + i] + (float)((s ? -step : step) * (double)b.g[at + i] / norm);
            side_loss[s] = loss_of(&b, &batch, 0, false).sum;
        }
        memcpy(b.w + adapters, map, (d * d + d) * sizeof(float));
        worst = fmax(worst, fabs((side_loss[0] - side_loss[1]) / (2 * step) / norm - 1));
    }
    print_message("  worst relative difference %.2g <= 1e-2\n", worst);
    assert_true(worst <= 1e-2);
    zl_block_update(&b, &adamw, 1);
    const float most = 1.01f * adamw.lr; /* Adam's first step is the learning rate, for every element that has a gradient */
    for (uint64_t i = 0; i < d * d + d; i++)
        assert_true(fabsf(b.w[adapters + i] - map[i]) <= most);
    assert_memory_not_equal(b.w + adapters, map, d * d * sizeof(float));
    memcpy(b.w + adapters, map, (d * d + d) * sizeof(float));
    memset(b.m, 0, b.n * sizeof(float));
    b.g[0] = 1;
    zl_block_update(&b, &adamw, 2);
    assert_memory_equal(b.w + adapters, map, (d * d + d) * sizeof(float));
    free(map);
    batch_free(&batch);
    zl_block_close(&b);
}

static void all_adapter_tensors_move_within_two_steps(void **state)
{
    (void)state;
    struct zl_block b;
    struct batch batch;
    char name[96];
    const struct zl_block_spec spec = {.n_own = 2, .n_shadow = 1, .lora = &lora, .seed = 3, .train = true};
    open_block(&b, &spec);
    batch_make(&batch, &model, (int64_t[]){40}, 1, VOCAB, 6);
    float *kept = malloc(b.n * sizeof(float));
    memcpy(kept, b.w, b.n * sizeof(float));
    for (int64_t step = 1; step <= 2; step++) {
        loss_of(&b, &batch, 1.0f / 39, true);
        zl_block_update(&b, &(struct zl_optimizer){.lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f}, step);
        if (step == 1) { /* with B = 0 no gradient reaches A yet */
            zl_block_unmoved(&b, name, sizeof name);
            assert_string_equal(name, "model.layers.0.self_attn.q_proj.lora_A");
        }
    }
    zl_block_unmoved(&b, name, sizeof name);
    assert_string_equal(name, "");
    for (uint32_t i = 0; i < 2; i++)
        for (int role = 0; role < ZL_LINEARS; role++) {
            const struct zl_lora_module *m = &b.own.layer[i].module[role];
            assert_memory_not_equal(b.w + m->a, kept + m->a, m->r * zl_linear_in(&model.config, role) * sizeof(float));
            assert_memory_not_equal(b.w + m->bt, kept + m->bt, m->r * zl_linear_out(&model.config, role) * sizeof(float));
        }
    free(kept);
    batch_free(&batch);
    zl_block_close(&b);
}

static void silence_layer_1(struct variant_tensors *v, const void *arg)
{
    static const float zeros[32 * 32];
    (void)arg;
    variant_find(v, "model.layers.1.self_attn.o_proj.weight")->data = zeros;
}

static void an_adapter_that_no_gradient_reaches_is_named(void **state)
{
    (void)state;
    struct tiny silent;
    struct zl_model m, saved = model;
    struct zl_block b;
    struct batch batch;
    char name[96];
    const struct zl_lora_spec attention = {.rank = 2, .targets = 1u << ZL_W_Q | 1u << ZL_W_V, .alpha = 2};
    const struct zl_block_spec spec = {.n_own = 3, .lora = &attention, .seed = 3, .train = true};
    tiny_make(&silent, LAYERS, 1);
    variant_weights(&silent, silence_layer_1, NULL);
    variant_open(&silent, 256, &m);
    model = m;
    open_block(&b, &spec);
    batch_make(&batch, &m, (int64_t[]){40}, 1, VOCAB, 6);
    for (int64_t step = 1; step <= 2; step++) {
        loss_of(&b, &batch, 1.0f / 39, true);
        zl_block_update(&b, &adamw, step);
    }
    zl_block_unmoved(&b, name, sizeof name);
    assert_string_equal(name, "model.layers.1.self_attn.q_proj.lora_A");
    batch_free(&batch);
    zl_block_close(&b);
    zl_model_close(&m);
    model = saved;
    tiny_remove(&silent);
}

static void labels_outside_the_subset_are_left_out(void **state)
{
    (void)state;
    int32_t ids[130], index[VOCAB];
    struct zl_block b;
    struct batch batch;
    for (int32_t i = 0; i < VOCAB; i++)
        index[i] = i % 2 ? i / 2 : -1;
    for (int32_t i = 0; i < VOCAB / 2; i++)
        ids[i] = 2 * i + 1;
    const struct zl_block_spec spec = {.n_own = 1, .subset = ids, .subset_index = index, .n_subset = VOCAB / 2};
    open_block(&b, &spec);
    batch_make(&batch, &model, (int64_t[]){60}, 1, VOCAB, 8);
    uint64_t odd = 0;
    for (int i = 0; i < 59; i++)
        odd += batch.labels[i] % 2 == 1;
    struct zl_loss loss = loss_of(&b, &batch, 0, false);
    assert_int_equal(loss.n, odd);
    assert_true(isfinite(loss.sum) && loss.sum > 0);
    batch_free(&batch);
    zl_block_close(&b);
}

/* ---- sizes ---- */

static void halved_activations_take_half_the_memory_and_give_near_gradients(void **state)
{
    (void)state;
    for (int mode = ZL_RECOMPUTE_NONE; mode <= ZL_RECOMPUTE_FULL; mode++) {
        struct batch batch;
        struct zl_block whole, half;
        struct zl_block_spec spec = {.n_own = LAYERS, .train = true, .lora = &lora, .seed = 5, .recompute = (enum zl_recompute)mode};
        double difference = 0, square = 0;
        batch_make(&batch, &model, (int64_t[]){60, 44}, 2, VOCAB, 3);
        open_block(&whole, &spec);
        spec.halves = true;
        open_block(&half, &spec);
        for (uint64_t i = 0; i < whole.n; i++) /* B is 0 at the start, and A then sees no gradient */
            whole.w[i] = half.w[i] = whole.w[i] + 0.02f * (float)((i * 7919) % 13 - 6.0);
        struct zl_loss a = loss_of(&whole, &batch, 0.01f, true), b = loss_of(&half, &batch, 0.01f, true);
        for (uint64_t i = 0; i < whole.n; i++) {
            difference += pow((double)whole.g[i] - (double)half.g[i], 2);
            square += pow((double)whole.g[i], 2);
        }
        print_message("  recompute %d: loss %.9g and %.9g (bound 0), relative RMS of gradients %.2g (bounds 1e-5, 1e-2), %.2f of the memory\n",
                      mode, a.sum, b.sum, sqrt(difference / square), (double)half.slot_bytes / (double)whole.slot_bytes);
        assert_true(a.sum == b.sum); /* the forward knows nothing of it */
        assert_true(sqrt(difference / square) < 1e-2 && difference > 1e-10 * square);
        zl_block_close(&whole);
        zl_block_close(&half);
        batch_free(&batch);
    }
}

/* However little memory a micro-batch finds, its layers compute again no more than they must, and the gradients stay the same. */
static void a_larger_micro_batch_computes_again_in_as_many_layers_as_it_must(void **state)
{
    (void)state;
    struct batch batch;
    struct zl_block whole;
    const struct zl_block_spec spec = {.n_own = LAYERS, .train = true, .lora = &lora, .seed = 5};
    uint32_t mixed = 0, least = 0;
    batch_make(&batch, &model, (int64_t[]){100, 60}, 2, VOCAB, 3);
    open_block(&whole, &spec);
    for (uint64_t i = 0; i < whole.n; i++)
        whole.w[i] += 0.02f * (float)((i * 7919) % 13 - 6.0);
    loss_of(&whole, &batch, 0.01f, true);
    for (int64_t keep = 150; keep > 0; keep -= 10) {
        struct zl_block tight;
        struct zl_block_spec small = spec;
        small.keep_tokens = keep;
        open_block(&tight, &small);
        memcpy(tight.w, whole.w, whole.n * sizeof *whole.w);
        loss_of(&tight, &batch, 0.01f, true);
        const uint32_t now = (uint32_t)tight.again.mode * LAYERS - tight.again.spared;
        print_message("  memory of %3lld tokens for 160: mode %d, %u layers spared, %.2f of the memory\n", (long long)keep, tight.again.mode,
                      tight.again.spared, (double)tight.slot_bytes / (double)whole.slot_bytes);
        assert_memory_equal(tight.g, whole.g, whole.n * sizeof *whole.g);
        assert_true(now >= least && zl_arena_mark(&tight.activations) - tight.fixed_mark <= tight.slot_bytes);
        mixed += tight.again.spared > 0;
        least = now;
        zl_block_close(&tight);
    }
    assert_true(mixed > 1);
    zl_block_close(&whole);
    batch_free(&batch);
}

static void sizes_are_counted_in_64_bits(void **state)
{
    (void)state;
    struct zl_error err = {0};
    struct zl_block_plan small, large;
    struct zl_block_spec spec = {.n_own = LAYERS, .train = true, .has_loss = true, .lora = &lora, .tokens = 1 << 10, .longest = 1 << 10};
    assert_int_equal(zl_block_plan(&model, &spec, 4, &small, &err), 0);
    spec.tokens = 1 << 30;
    assert_int_equal(zl_block_plan(&model, &spec, 4, &large, &err), 0);
    const double ratio = (double)large.activation_bytes / (double)small.activation_bytes;
    print_message("  2^10 tokens: %.3g bytes, 2^30: %.3g\n", (double)small.activation_bytes, (double)large.activation_bytes);
    assert_true(ratio > 0x1p20 * 0.99 && ratio < 0x1p20 * 1.01);
    assert_int_equal(large.state_bytes, small.state_bytes);

    struct zl_model huge = model; /* the largest that a configuration may say */
    huge.config.layers = 1024;
    huge.config.d = 65536;
    huge.config.ffn = 1 << 20;
    huge.config.heads = huge.config.kv_heads = 1024;
    huge.config.head_dim = 256;
    spec.n_own = 1024;
    spec.tokens = spec.longest = INT32_MAX;
    assert_int_equal(zl_block_plan(&huge, &spec, 1024, &large, &err), 0);
    const double least = 1024.0 * INT32_MAX * (2.0 * (1 << 20) + 3.0 * (1 << 18)) * 4;
    print_message("  the largest model: %.3g bytes, at least %.3g\n", (double)large.activation_bytes, fmin(least, 0x1p64));
    assert_true((double)large.activation_bytes >= fmin(least, 0x1p63));
    struct zl_block b = {0};
    assert_int_equal(zl_block_open(&b, &huge, &spec, 2, &err), ZL_EMEMORY); /* refused by its size, before any is taken */
    zl_block_close(&b);

    static const int64_t tokens[] = {0, -1, INT64_C(1) << 31, INT64_C(1) << 40, INT64_MAX};
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        err = (struct zl_error){0};
        spec.tokens = tokens[i];
        assert_int_equal(zl_block_plan(&huge, &spec, 2, &large, &err), ZL_EUSAGE);
    }
}

static void scratch_sizes_grow_with_64_bits(void **state)
{
    (void)state;
    const uint64_t one = zl_gemm_scratch_bytes(1), many = zl_gemm_scratch_bytes(1 << 20);
    assert_true(many > one && (many - one) / ((1 << 20) - 1) > 1024);
    assert_int_equal((many - one) % ((1 << 20) - 1), 0);
    const uint64_t head = zl_head_scratch_bytes(1, 65536, INT64_C(64) * 1024), wide = zl_head_scratch_bytes(1 << 16, 65536, INT32_MAX);
    assert_true(head >= UINT64_C(65536) * 4 && wide > head && wide / (1 << 16) >= UINT64_C(65536) * 4);
    /* llm.c's numbers, B = 64 and T = 1024, and the most that a plan may ask for */
    const uint64_t a = zl_attention_scratch_bytes(8, 12, 12, 64, 1024, 65536);
    const uint64_t b = zl_attention_scratch_bytes(1024, 1024, 1024, 256, INT32_MAX, INT32_MAX);
    assert_true(a > 0 && b / 1024 >= (uint64_t)INT32_MAX * 256 * 4);
}

static void packets_and_rings_are_sized_in_64_bits(void **state)
{
    (void)state;
    struct zl_packet_layout l = zl_packet_layout(INT32_MAX, INT32_MAX, 65536);
    assert_true(l.bytes > (uint64_t)INT32_MAX * 65536 * 4 && l.bytes < UINT64_MAX);
    assert_true(l.hidden > l.seqs && l.seqs > l.positions && l.positions > l.labels && l.labels > l.ids);
    assert_int_equal(l.labels - l.ids, UINT64_C(1) << 33);
    assert_true(zl_ring_bytes(8, l.bytes) > 8 * l.bytes);
    assert_int_equal(zl_packet_layout(UINT32_MAX, 1, UINT32_MAX).bytes, UINT64_MAX);
    assert_int_equal(zl_packet_layout(UINT64_MAX / 2, 1, 64).bytes, UINT64_MAX);
    assert_int_equal(zl_packet_layout(64, UINT64_MAX, 64).bytes, UINT64_MAX);
    assert_int_equal(zl_ring_bytes(2, zl_packet_layout(UINT64_MAX / 2, 1, 64).bytes), 0);
}

static void a_pipeline_too_large_for_any_memory_is_planned_but_not_opened(void **state)
{
    (void)state;
    struct zl_error err = {0};
    struct zl_pipeline_plan plan;
    struct zl_pipeline l;
    char note[256];
    struct zl_core_group groups[2] = {{.n = 1}, {.n = 1}};
    const struct zl_partition p = {.n = 2, .cut = {{.n_own = 2}, {.first = 2, .n_own = 2}}};
    struct zl_model huge = model;
    huge.config.d = 65536;
    huge.config.ffn = 1 << 20;
    const struct zl_pipeline_options o = {.lora = &lora, .tokens = INT32_MAX, .seqs = INT32_MAX, .longest = INT32_MAX,
                                          .ring_depth = 1 << 20, .schedule = &zl_schedules[ZL_SCHEDULE_ZEROLOCK], .n_workers = 2,
                                          .worker_of = (const uint32_t[2]){0, 1}, .groups = groups};
    assert_int_equal(zl_pipeline_plan(&huge, &p, &o, &plan, &err), 0);
    assert_true(plan.total_bytes >= plan.ring_bytes && plan.total_bytes >= UINT64_C(1) << 60);
    assert_int_equal(zl_pipeline_open(&l, &huge, &p, &o, note, &err), ZL_EMEMORY);
    print_message("  %s\n", err.text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fresh_adapter_changes_no_bit_of_the_loss),
        cmocka_unit_test(a_term_of_zeros_changes_no_bit_of_a_product),
        cmocka_unit_test(accumulated_micro_batches_give_the_gradient_of_the_batch),
        cmocka_unit_test(a_batch_without_labels_trains_nothing),
        cmocka_unit_test(a_block_without_adapters_trains_nothing),
        cmocka_unit_test(a_step_without_labels_is_counted_as_skipped),
        cmocka_unit_test(a_gradient_that_is_not_finite_is_left_out),
        cmocka_unit_test(gradients_are_the_slopes_of_the_loss),
        cmocka_unit_test(a_map_that_trains_has_the_slopes_of_the_loss),
        cmocka_unit_test(all_adapter_tensors_move_within_two_steps),
        cmocka_unit_test(an_adapter_that_no_gradient_reaches_is_named),
        cmocka_unit_test(labels_outside_the_subset_are_left_out),
        cmocka_unit_test(halved_activations_take_half_the_memory_and_give_near_gradients),
        cmocka_unit_test(a_larger_micro_batch_computes_again_in_as_many_layers_as_it_must),
        cmocka_unit_test(sizes_are_counted_in_64_bits),
        cmocka_unit_test(scratch_sizes_grow_with_64_bits),
        cmocka_unit_test(packets_and_rings_are_sized_in_64_bits),
        cmocka_unit_test(a_pipeline_too_large_for_any_memory_is_planned_but_not_opened),
    };
    return cmocka_run_group_tests(tests, open_tiny, remove_tiny);
}
