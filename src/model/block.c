/* A block of layers that trains by itself: see block.h. */
#include "model/block_impl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kernel/gemm.h"
#include "kernel/head.h"
#include "kernel/ops.h"

static const float *layer_weights(const struct zl_block *b, uint32_t i)
{
    return i < b->spec.n_own ? b->in_use : b->in_use + b->n_own;
}

static const float *forward(struct zl_block *b, const struct zl_tokens *tok, const float *x, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        b->acts[i].x = x;
        zl_layer_forward(&b->team, b->model, b->spec.first + i, zl_block_lora(b, i), layer_weights(b, i), tok, &b->acts[i],
                         &b->work, NULL);
        if (b->kept)
            zl_kept_put(&b->team, &b->kept[i], &b->model->config, zl_block_lora(b, i), tok->t, &b->acts[i]);
        x = b->acts[i].y;
    }
    return x;
}

const float *zl_block_forward(struct zl_block *b, uint32_t slot, const struct zl_tokens *tok, const float *x)
{
    zl_block_select(b, slot);
    zl_block_arrange(b, tok->t);
    return forward(b, tok, x, 0, b->spec.n_own);
}

/* Rows of u at the labelled positions, with their targets as the head numbers them. */
static int64_t gather(struct zl_block *b, const struct zl_tokens *tok, const int32_t *labels, const float *u)
{
    const size_t d = b->model->config.d;
    int64_t n = 0;
    for (int64_t i = 0; i < tok->t; i++) {
        if (labels[i] < 0)
            continue;
        int32_t target = b->spec.subset ? b->spec.subset_index[labels[i]] : labels[i];
        if (target < 0)
            continue;
        memcpy(b->rows[0] + (size_t)n * d, u + (size_t)i * d, d * sizeof(float));
        b->row_at[n] = (int32_t)i;
        b->target[n++] = target;
    }
    return n;
}

static const float *map_a(const struct zl_block *b)
{
    return b->n_map ? b->in_use + (b->n - b->n_map) : b->spec.map_a;
}

static const float *map_b(const struct zl_block *b)
{
    const size_t d = b->model->config.d;
    return b->n_map ? map_a(b) + d * d : b->spec.map_b;
}

static void map_rows(const struct zl_block *b, int64_t n, const float *in, float *out, bool backward)
{
    const int64_t d = b->model->config.d;
    struct zl_gemm p = {.m = n, .n = d, .n_terms = 1, .c = out, .ldc = d, .bias = backward ? NULL : map_b(b),
                        .part = backward ? ZL_PART_BACKWARD : ZL_PART_FORWARD};
    p.term[0] = (struct zl_gemm_term){.a = in, .lda = d, .b = map_a(b), .b_type = ZL_F32,
                                      .b_layout = backward ? ZL_B_KN : ZL_B_NK, .ldb = d, .k = d, .alpha = 1};
    zl_gemm(&b->team, &p);
}

/* Of a map that trains: dA += dz' u, db += the sum of dz. u, dz: [n][d]. */
static void map_gradients(const struct zl_block *b, int64_t n, const float *u, const float *dz)
{
    const int64_t d = b->model->config.d;
    float *ga = b->g + (b->n - b->n_map), *gb = ga + d * d;
    struct zl_gemm p = {.m = d, .n = d, .n_terms = 1, .c = ga, .ldc = d, .accumulate = true, .part = ZL_PART_BACKWARD};
    p.term[0] = (struct zl_gemm_term){.a = dz, .lda = d, .a_transposed = true, .b = u, .b_type = ZL_F32,
                                      .b_layout = ZL_B_KN, .ldb = d, .k = n, .alpha = 1};
    zl_gemm(&b->team, &p);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++)
            gb[j] += dz[i * d + j];
}

/* From d loss / d z of the rows to dx [t][d], zero elsewhere. */
static void scatter(struct zl_block *b, int64_t t, int64_t n, const float *rows)
{
    const size_t d = b->model->config.d;
    memset(b->dx, 0, (size_t)t * d * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        memcpy(b->dx + (size_t)b->row_at[i] * d, rows + (size_t)i * d, d * sizeof(float));
}

static void backward_layers(struct zl_block *b, const struct zl_tokens *tok)
{
    const uint32_t last = zl_block_layers(b) - 1; /* its activations are still there: nothing overwrote them */
    for (uint32_t i = zl_block_layers(b); i-- > b->lead;) {
        if (b->kept && i > 0) {
            zl_kept_output(&b->team, &b->kept[i - 1], &b->model->config, tok->t, b->acts[i - 1].y);
            b->acts[i].x = b->acts[i - 1].y;
        }
        if (b->kept)
            zl_kept_get(&b->team, &b->kept[i], &b->model->config, zl_block_lora(b, i), tok->t, &b->acts[i]);
        if (i != last || b->kept)
            zl_layer_again(&b->team, b->model, b->spec.first + i, zl_block_lora(b, i), layer_weights(b, i), tok, &b->acts[i],
                           &b->work, zl_block_mode(b, b->again, i));
        zl_layer_backward(&b->team, b->model, b->spec.first + i, zl_block_lora(b, i), layer_weights(b, i),
                          i < b->spec.n_own ? b->g : b->g + b->n_own, tok, &b->acts[i], &b->work, b->dx, i > b->lead || b->spec.need_dx);
    }
}

void zl_block_loss(struct zl_block *b, uint32_t slot, const struct zl_tokens *tok, const int32_t *labels, float weight,
                   bool backward, struct zl_loss *out)
{
    const struct zl_model *m = b->model;
    const int64_t d = m->config.d;
    *out = (struct zl_loss){0};
    zl_block_select(b, slot);
    backward = backward && b->spec.train;
    const float *u = forward(b, tok, b->acts[b->spec.n_own - 1].y, b->spec.n_own, zl_block_layers(b));
    int64_t n = gather(b, tok, labels, u);
    if (n == 0) {
        if (backward && b->spec.need_dx)
            memset(b->dx, 0, (size_t)tok->t * (size_t)d * sizeof(float));
        return;
    }
    float *z = b->rows[0], *zn = b->rows[2];
    if (b->spec.map) {
        z = b->rows[1];
        map_rows(b, n, b->rows[0], z, false);
    }
    for (int64_t i = 0; b->anchor && backward && i < n * d; i++)
        z[i] += b->anchor[i];
    zl_rmsnorm(&b->team, n, d, z, m->norm, (float)m->config.norm_eps, zn, b->rstd);
    struct zl_head head = {.type = m->head.type, .weight = m->head.data, .vocab = m->config.vocab, .d = d,
                           .subset = b->spec.subset, .n_subset = b->spec.n_subset};
    if (b->spec.local_head) { /* the same rows, numbered as the targets are */
        head.weight = b->spec.local_head->data;
        head.vocab = b->spec.n_subset;
        head.subset = NULL;
    }
    zl_head_loss(&b->team, &head, n, zn, b->target, weight, b->loss, b->argmax, backward ? zn : NULL);
    for (int64_t i = 0; i < n; i++) {
        out->sum += (double)b->loss[i];
        out->correct += b->argmax[i] == b->target[i];
    }
    out->n = (uint64_t)n;
    if (!backward)
        return;
    if (b->spec.belief > 0)
        zl_block_believe(b, &head, n, weight, zn);
    zl_rmsnorm_backward(&b->team, n, d, zn, z, m->norm, b->rstd, zn, 0);
    if (b->n_map)
        map_gradients(b, n, b->rows[0], zn);
    if (b->spec.map) {
        map_rows(b, n, zn, b->rows[0], true);
        scatter(b, tok->t, n, b->rows[0]);
    } else {
        scatter(b, tok->t, n, zn);
    }
    b->loss_end_ns = zl_clock_ns();
    backward_layers(b, tok);
}

void zl_block_backward(struct zl_block *b, uint32_t slot, const struct zl_tokens *tok, const float *dy)
{
    zl_block_select(b, slot);
    memcpy(b->dx, dy, (size_t)tok->t * b->model->config.d * sizeof(float));
    backward_layers(b, tok);
}

double zl_block_sum_squares(const struct zl_block *b, double sum)
{
    for (uint32_t i = zl_block_layers(b); i-- > 0;) {
        const bool own = i < b->spec.n_own;
        const struct zl_lora *l = own ? &b->own : &b->shadow;
        const uint32_t at = own ? i : i - b->spec.n_own;
        const uint64_t from = l->layer[at].group_a[0], to = at + 1 < l->n ? l->layer[at + 1].group_a[0] : l->size;
        sum += zl_sum_squares(b->g + (own ? 0 : b->n_own) + from, (int64_t)(to - from));
    }
    return sum;
}

bool zl_block_step(struct zl_block *b, const struct zl_optimizer *o, int64_t step, double norm)
{
    ZL_PROFILE(&b->team, ZL_PART_OPTIMIZER);
    const bool possible = b->n > 0 && norm > 0 && isfinite(norm);
    if (possible) {
        float clip = o->clip > 0 ? (float)fmin(1.0, (double)o->clip / (norm + 1e-6)) : 1.0f;
        struct zl_adamw adamw = {o->lr, o->beta1, o->beta2, o->eps, o->weight_decay};
        const uint64_t map = b->n - b->n_map;
        zl_adamw_step(&adamw, step, (int64_t)(map - b->still), clip, b->g + b->still, b->w + b->still, b->m + b->still,
                      b->v + b->still);
        adamw.weight_decay = 0;
        if (b->n_map)
            zl_adamw_step(&adamw, step, (int64_t)b->n_map, clip, b->g + map, b->w + map, b->m + map, b->v + map);
    }
    memset(b->g, 0, b->n * sizeof(float));
    return possible;
}

double zl_block_update(struct zl_block *b, const struct zl_optimizer *o, int64_t step)
{
    if (b->n == 0)
        return 0;
    double norm = sqrt(zl_block_sum_squares(b, 0));
    zl_block_step(b, o, step, norm);
    return norm;
}

static bool all_zero(const float *x, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (x[i] != 0)
            return false;
    return true;
}

void zl_block_unmoved(const struct zl_block *b, char *name, size_t size)
{
    const struct zl_config *c = &b->model->config;
    snprintf(name, size, "%s", "");
    for (uint32_t i = b->lead; i < b->own.n; i++)
        for (enum zl_role role = 0; role < ZL_LINEARS; role++) {
            const struct zl_lora_module *mod = &b->own.layer[i].module[role];
            bool a = mod->r && all_zero(b->m + mod->a, (uint64_t)mod->r * zl_linear_in(c, role));
            bool bt = mod->r && all_zero(b->m + mod->bt, (uint64_t)mod->r * zl_linear_out(c, role));
            if (!a && !bt)
                continue;
            char module[80];
            zl_module_name(c, b->own.first + i, role, module, sizeof module);
            snprintf(name, size, "%s.%s", module, a ? "lora_A" : "lora_B");
            return;
        }
}
