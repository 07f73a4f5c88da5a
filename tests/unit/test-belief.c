/*
 * The belief of the stage before in a local loss: its gradient against explicit softmaxes in double, the slopes of the mixed loss, and whole runs.
 */
#include "tests/unit/test.h"

#include <math.h>

#include "kernel/dequant.h"
#include "model/block_impl.h"
#include "tests/unit/tiny-run.h"
#include "tests/variant.h"

enum { LAYERS = 6, VOCAB = 260, D = 32 };

static struct tiny tiny;
static struct zl_model model;
static const struct zl_lora_spec lora = {.rank = 4, .targets = (1 << ZL_LINEARS) - 1, .alpha = 8};
static float map_a[2][D * D], map_b[2][D];
static int32_t ids[VOCAB / 2], index_of[VOCAB];
static double embedding[VOCAB][D], norm[D];

enum { WITH_MAPS = 1, WITH_SUBSET = 2 };

static struct zl_block_spec spec_of(int way)
{
    struct zl_block_spec s = {.first = 2, .n_own = 2, .lora = &lora, .seed = 7, .train = true, .has_loss = true, .tokens = 100, .longest = 100,
                              .belief = 0.3f};
    if (way & WITH_MAPS) {
        s.map = s.belief_map = true;
        s.map_a = map_a[0];
        s.map_b = map_b[0];
        s.belief_a = map_a[1];
        s.belief_b = map_b[1];
    }
    if (way & WITH_SUBSET) {
        s.subset = ids;
        s.subset_index = index_of;
        s.n_subset = VOCAB / 2;
    }
    return s;
}

static void open_block(struct zl_block *b, int way)
{
    struct zl_error err = {0};
    const struct zl_block_spec s = spec_of(way);
    if (zl_block_open(b, &model, &s, 2, &err))
        fail_msg("%s", err.text);
    for (uint64_t i = 0; i < b->n; i++)
        b->w[i] += 0.02f * (float)sin((double)i); /* B away from zero */
}

/* Normed row and softmax of a readout: logarithms of the probabilities, -inf outside the subset. */
static void readout(const float *x, const float *a, const float *bias, bool subset, double h[D], double log_p[VOCAB])
{
    double z[D], squares = 0, sum = 0;
    for (int i = 0; i < D; i++) {
        z[i] = a ? (double)bias[i] : (double)x[i];
        for (int j = 0; a && j < D; j++)
            z[i] += (double)a[i * D + j] * (double)x[j];
        squares += z[i] * z[i];
    }
    for (int i = 0; i < D; i++)
        h[i] = z[i] / sqrt(squares / D + model.config.norm_eps) * norm[i];
    for (int v = 0; v < VOCAB; v++) {
        log_p[v] = subset && index_of[v] < 0 ? -INFINITY : 0;
        for (int i = 0; i < D; i++)
            log_p[v] += h[i] * embedding[v][i];
        sum += exp(log_p[v]);
    }
    for (int v = 0; v < VOCAB; v++)
        log_p[v] -= log(sum);
}

/* alpha CE + (1 - alpha) KL(p || q), and its gradient by q's normed row. */
static double mixed(const double log_p[VOCAB], const double log_q[VOCAB], int target, double share, double dh[D])
{
    double loss = -(1 - share) * log_q[target];
    for (int i = 0; i < D && dh; i++)
        dh[i] = 0;
    for (int v = 0; v < VOCAB; v++) {
        if (isinf(log_q[v]))
            continue;
        const double p = exp(log_p[v]), q = exp(log_q[v]);
        loss += share * p * (log_p[v] - log_q[v]);
        for (int i = 0; i < D && dh; i++)
            dh[i] += (q - share * p - (v == target) * (1 - share)) * embedding[v][i];
    }
    return loss;
}

/* The mixed loss of a batch by the block's weights, and in `worst` how far zl_block_believe is off. */
static double reference(struct zl_block *b, const struct batch *batch, float *worst)
{
    const struct zl_block_spec *s = &b->spec;
    double sum = 0, squares = 0, off = 0;
    const float *y = zl_block_forward(b, 0, &batch->tok, batch->x);
    static double dh[100][D];
    static float ours[100 * D];
    int n = 0;
    for (int64_t t = 0; t < batch->tok.t; t++) {
        double h[D], log_q[VOCAB], log_p[VOCAB];
        if (batch->labels[t] < 0 || (s->subset && index_of[batch->labels[t]] < 0))
            continue;
        readout(y + t * D, s->map_a, s->map_b, s->subset, h, log_q);
        for (int i = 0; i < D; i++)
            ours[n * D + i] = (float)h[i];
        readout(batch->x + t * D, s->belief_a, s->belief_b, s->subset, h, log_p);
        sum += mixed(log_p, log_q, batch->labels[t], (double)s->belief, dh[n]);
        b->row_at[n] = (int32_t)t;
        b->target[n++] = s->subset ? index_of[batch->labels[t]] : batch->labels[t];
    }
    if (!worst)
        return sum;
    const struct zl_head head = {.type = model.head.type, .weight = model.head.data, .vocab = VOCAB, .d = D, .subset = s->subset,
                                 .n_subset = s->n_subset};
    zl_head_loss(&b->team, &head, n, ours, b->target, 0.25f, b->loss, NULL, ours);
    zl_block_believe(b, &head, n, 0.25f, ours);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < D; i++) {
            squares += 0.0625 * dh[r][i] * dh[r][i];
            off += (0.25 * dh[r][i] - (double)ours[r * D + i]) * (0.25 * dh[r][i] - (double)ours[r * D + i]);
        }
    *worst = (float)sqrt(off / squares);
    return sum;
}

static void the_gradient_is_that_of_explicit_softmaxes(void **state)
{
    (void)state;
    struct batch batch;
    batch_make(&batch, &model, (int64_t[]){31, 12}, 2, VOCAB, 5);
    for (int way = 0; way < 4; way++) {
        struct zl_block b;
        float off;
        open_block(&b, way);
        reference(&b, &batch, &off);
        print_message("  %s, %s: relative difference %.2g (bound 1e-5)\n", way & WITH_MAPS ? "maps" : "lens",
                      way & WITH_SUBSET ? "half of the vocabulary" : "all of it", (double)off);
        assert_true(off <= 1e-5f);
        zl_block_close(&b);
    }
    batch_free(&batch);
}

/* Along the block's own gradient the mixed loss, computed in double from the block's output, rises as the gradient says. */
static void gradients_are_the_slopes_of_the_mixed_loss(void **state)
{
    (void)state;
    struct batch batch;
    batch_make(&batch, &model, (int64_t[]){31, 12}, 2, VOCAB, 5);
    for (int way = 0; way < 4; way++) {
        struct zl_block b;
        struct zl_loss loss;
        double squares = 0, side[2];
        open_block(&b, way);
        zl_block_forward(&b, 0, &batch.tok, batch.x);
        zl_block_loss(&b, 0, &batch.tok, batch.labels, 1, true, &loss);
        float *kept = malloc(b.n * sizeof(float));
        memcpy(kept, b.w, b.n * sizeof(float));
        for (uint64_t i = 0; i < b.n; i++)
            squares += (double)b.g[i] * (double)b.g[i];
        const double step = 0.02;
        for (int s = 0; s < 2; s++) {
            for (uint64_t i = 0; i < b.n; i++)
                b.w[i] = kept[i] + (float)((s ? -step : step) * (double)b.g[i] / sqrt(squares));
            side[s] = reference(&b, &batch, NULL);
        }
        const double ratio = (side[0] - side[1]) / (2 * step) / sqrt(squares);
        print_message("  way %d: slope / norm - 1 = %.2g (bound 5e-3)\n", way, ratio - 1);
        assert_true(fabs(ratio - 1) <= 5e-3);
        free(kept);
        zl_block_close(&b);
    }
    batch_free(&batch);
}

/* ---- whole runs ---------------------------------------------------------------------------------- */

static char *run(const char *name, struct zl_train_options o, size_t *size)
{
    o.output = tiny_path(&tiny, name);
    return tiny_run(o, size);
}

static void runs_with_belief_are_the_same_whatever_the_threads(void **state)
{
    (void)state;
    static const enum zl_readout_kind readouts[] = {ZL_READOUT_LENS, ZL_READOUT_RIDGE};
    for (int i = 0; i < 2; i++) {
        struct zl_train_options o = tiny_run_options(&tiny, NULL);
        o.train_map = ZL_OFF;
        char names[4][32];
        size_t n[4];
        o.readout = readouts[i];
        o.stages = 3;
        for (int j = 0; j < 4; j++)
            snprintf(names[j], sizeof names[j], "belief-%d-%d", i, j);
        char *without = run(names[0], o, &n[0]);
        o.belief_weight = 0.6;
        char *with = run(names[1], o, &n[1]);
        o.threads = 1;
        o.ring_depth = 1;
        char *again = run(names[2], o, &n[2]);
        assert_int_equal(n[0], n[1]);
        assert_int_equal(n[1], n[2]);
        assert_memory_not_equal(with, without, n[0]);
        assert_memory_equal(with, again, n[1]);
        if (o.readout == ZL_READOUT_LENS) {
            o.schedule = ZL_SCHEDULE_SWEEP;
            o.window = 4;
            char *swept = run(names[3], o, &n[3]);
            assert_int_equal(n[1], n[3]);
            assert_memory_equal(with, swept, n[1]);
            free(swept);
        }
        free(with);
        free(without);
        free(again);
    }
}

static int setup(void **state)
{
    (void)state;
    tiny_make(&tiny, LAYERS, 60);
    variant_open(&tiny, 256, &model);
    assert_int_equal(model.config.d, D);
    assert_int_equal(model.config.vocab, VOCAB);
    for (int v = 0, n = 0; v < VOCAB; v++) {
        float row[D];
        zl_dequant_rows(model.head.type, model.head.data, D, &v, 1, row);
        for (int i = 0; i < D; i++)
            embedding[v][i] = (double)row[i];
        index_of[v] = v % 2 ? n : -1;
        if (v % 2)
            ids[n++] = v;
    }
    for (int i = 0; i < D; i++)
        norm[i] = (double)model.norm[i];
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < D * D; i++) {
            map_a[k][i] = (float)(i % D == i / D) + 0.1f * (float)sin(i + 3.0 * k);
            map_b[k][i % D] = 0.1f * (float)cos(i + 5.0 * k);
        }
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
        cmocka_unit_test(the_gradient_is_that_of_explicit_softmaxes),
        cmocka_unit_test(gradients_are_the_slopes_of_the_mixed_loss),
        cmocka_unit_test(runs_with_belief_are_the_same_whatever_the_threads),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
