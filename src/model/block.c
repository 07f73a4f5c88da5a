/* A block of layers that trains by itself: see block.h. */
#include "model/block.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernel/gemm.h"
#include "kernel/head.h"
#include "kernel/ops.h"

static uint32_t n_layers(const struct zl_block *b)
{
    return b->spec.n_own + b->spec.n_shadow;
}

static uint64_t scratch_bytes(const struct zl_config *c, const struct zl_block_spec *s, int threads)
{
    uint64_t gemm = zl_gemm_scratch_bytes(threads), head = zl_head_scratch_bytes(threads, c->d, s->tokens);
    uint64_t attention = zl_attention_scratch_bytes(threads, (int)c->heads, (int)c->kv_heads, (int)c->head_dim,
                                                    s->longest, s->tokens);
    uint64_t most = gemm > head ? gemm : head;
    return most > attention ? most : attention;
}

static int layout(struct zl_block *b, struct zl_error *err)
{
    static const struct zl_lora_spec none = {.rank = 1};
    const struct zl_block_spec *s = &b->spec;
    const struct zl_config *c = &b->model->config;
    int rc;
    if (s->adapter)
        rc = zl_lora_layout_adapter(&b->own, c, s->first, s->n_own, s->adapter, err);
    else
        rc = zl_lora_layout(&b->own, c, s->first, s->n_own, s->lora ? s->lora : &none, err);
    if (!rc)
        rc = s->adapter ? zl_lora_layout_adapter(&b->shadow, c, s->first + s->n_own, s->n_shadow, s->adapter, err)
                        : zl_lora_layout(&b->shadow, c, s->first + s->n_own, s->n_shadow,
                                         s->lora ? s->lora : &none, err);
    b->n_own = b->own.size;
    b->n = b->own.size + b->shadow.size;
    return rc;
}

static void take_state(struct zl_block *b, struct zl_arena *a)
{
    b->w = zl_arena_take(a, b->n * sizeof(float));
    if (!b->spec.train)
        return;
    b->g = zl_arena_take(a, b->n * sizeof(float));
    b->m = zl_arena_take(a, b->n * sizeof(float));
    b->v = zl_arena_take(a, b->n * sizeof(float));
}

static const struct zl_lora_layer *lora_layer(const struct zl_block *b, uint32_t i)
{
    return i < b->spec.n_own ? &b->own.layer[i] : &b->shadow.layer[i - b->spec.n_own];
}

static void take_activations(struct zl_block *b, struct zl_arena *a, int64_t tokens, enum zl_recompute mode)
{
    const struct zl_config *c = &b->model->config;
    const struct zl_block_spec *s = &b->spec;
    const uint64_t t = (uint64_t)tokens, rows = t * c->d * sizeof(float);
    for (uint32_t i = 0; i < n_layers(b); i++) {
        if (i == 0) {
            zl_acts_take(a, &b->acts[i], c, lora_layer(b, i), tokens);
            continue;
        }
        if (s->train) {
            zl_acts_share(a, &b->acts[i], &b->acts[0], mode, c, lora_layer(b, i), tokens);
            continue;
        }
        /* Forward only: all layers share the first one's buffers; outputs alternate between two. */
        float *y = i == 1 ? zl_arena_take(a, rows) : b->acts[i - 2].y;
        b->acts[i] = b->acts[0];
        b->acts[i].y = y;
    }
    const struct zl_lora *wider = b->own.n ? &b->own : &b->shadow;
    zl_work_take(a, &b->work, c, wider, tokens, s->train);
    if (!s->has_loss)
        return;
    /* Between forward and backward the wide buffer is free for the labelled rows, and the last output for the gradient. */
    const bool lend = s->train && zl_work_width(c) >= (s->map ? 3 : 2) * (uint64_t)c->d;
    for (int i = 0, at = 0; i < 3; i++) {
        b->rows[i] = NULL;
        if (i == 1 && !s->map)
            continue;
        if (!lend)
            b->rows[i] = zl_arena_take(a, rows);
        else if (b->work.wide)
            b->rows[i] = b->work.wide + (uint64_t)at++ * t * c->d;
    }
    b->rstd = zl_arena_take(a, t * sizeof(float));
    b->loss = zl_arena_take(a, t * sizeof(float));
    b->row_at = zl_arena_take(a, t * sizeof(int32_t));
    b->target = zl_arena_take(a, t * sizeof(int32_t));
    b->argmax = zl_arena_take(a, t * sizeof(int32_t));
    b->dx = s->train ? b->acts[n_layers(b) - 1].y : NULL;
}

static uint64_t count_activations(struct zl_block *b, int64_t tokens, enum zl_recompute mode)
{
    struct zl_arena counter = {0};
    take_activations(b, &counter, tokens, mode);
    return counter.peak;
}

/* The memory that activations may take: that of a micro-batch of keep_tokens as asked, and at least that of the largest one with
 * everything computed again. */
static uint64_t activation_budget(struct zl_block *b)
{
    const struct zl_block_spec *s = &b->spec;
    if (!s->train || s->keep_tokens <= 0 || s->keep_tokens >= s->tokens)
        return count_activations(b, s->tokens, s->recompute);
    uint64_t keep = count_activations(b, s->keep_tokens, s->recompute);
    uint64_t least = count_activations(b, s->tokens, ZL_RECOMPUTE_FULL);
    return keep > least ? keep : least;
}

/* Give a micro-batch its activations. Pointers move, nothing is allocated. */
static void arrange(struct zl_block *b, int64_t tokens)
{
    b->mode = b->spec.recompute;
    while (b->spec.train && b->mode < ZL_RECOMPUTE_FULL && count_activations(b, tokens, b->mode) > b->activation_bytes)
        b->mode++;
    zl_arena_release(&b->activations, b->fixed_mark);
    take_activations(b, &b->activations, tokens, b->mode);
}

static int prepare(struct zl_block *b, const struct zl_model *m, const struct zl_block_spec *spec, struct zl_error *err)
{
    *b = (struct zl_block){.spec = *spec, .model = m};
    if (layout(b, err))
        return err ? err->code : ZL_EMEMORY;
    b->acts = calloc(n_layers(b) + 1, sizeof *b->acts);
    return b->acts ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
}

int zl_block_plan(const struct zl_model *m, const struct zl_block_spec *spec, int threads, struct zl_block_plan *plan,
                  struct zl_error *err)
{
    struct zl_block b;
    struct zl_arena state = {0};
    if (spec->tokens < 1 || spec->tokens > INT32_MAX || spec->longest < 1 || spec->longest > INT32_MAX)
        return zl_fail(err, ZL_EUSAGE, "micro-batches of %lld tokens with sequences of %lld cannot be planned, expected 1 to %d",
                       (long long)spec->tokens, (long long)spec->longest, INT32_MAX);
    int rc = prepare(&b, m, spec, err);
    if (!rc) {
        take_state(&b, &state);
        *plan = (struct zl_block_plan){state.peak, activation_budget(&b), scratch_bytes(&m->config, spec, threads)};
    }
    b.w = b.g = NULL;
    zl_block_close(&b);
    return rc;
}

static void start_weights(struct zl_block *b)
{
    const struct zl_block_spec *s = &b->spec;
    const struct zl_config *c = &b->model->config;
    b->own.w = b->w;
    b->shadow.w = b->w + b->n_own;
    if (s->adapter) {
        zl_lora_import(&b->own, c, s->adapter);
        zl_lora_import(&b->shadow, c, s->adapter);
    } else if (s->lora) {
        zl_lora_init(&b->own, c, s->lora, s->seed, 0);
        zl_lora_init(&b->shadow, c, s->lora, s->seed, 1 + s->first);
    }
}

int zl_block_open(struct zl_block *b, const struct zl_model *m, const struct zl_block_spec *spec, int threads,
                  struct zl_error *err)
{
    struct zl_block_plan plan;
    if (zl_block_plan(m, spec, threads, &plan, err) || prepare(b, m, spec, err))
        return err ? err->code : ZL_EMEMORY;
    uint64_t activations;
    if (__builtin_add_overflow(plan.activation_bytes, plan.scratch_bytes + 64, &activations))
        activations = UINT64_MAX;
    if (zl_arena_open(&b->state, "adapters and optimizer", plan.state_bytes, err) ||
        zl_arena_open(&b->activations, "activations", activations, err)) {
        zl_block_close(b);
        return ZL_EMEMORY;
    }
    take_state(b, &b->state);
    b->team = (struct zl_team){.threads = threads,
                               .scratch = zl_arena_take(&b->activations, plan.scratch_bytes),
                               .compute = spec->compute,
                               .scratch_bytes = plan.scratch_bytes};
    b->fixed_mark = zl_arena_mark(&b->activations);
    b->activation_bytes = plan.activation_bytes;
    arrange(b, spec->tokens);
    start_weights(b);
    return 0;
}

void zl_block_close(struct zl_block *b)
{
    zl_lora_free(&b->own);
    zl_lora_free(&b->shadow);
    free(b->acts);
    zl_arena_close(&b->state);
    zl_arena_close(&b->activations);
    *b = (struct zl_block){0};
}

static const float *layer_weights(const struct zl_block *b, uint32_t i)
{
    return i < b->spec.n_own ? b->w : b->w + b->n_own;
}

static const float *forward(struct zl_block *b, const struct zl_tokens *tok, const float *x, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        b->acts[i].x = x;
        zl_layer_forward(&b->team, b->model, b->spec.first + i, lora_layer(b, i), layer_weights(b, i), tok, &b->acts[i],
                         &b->work, NULL);
        x = b->acts[i].y;
    }
    return x;
}

const float *zl_block_forward(struct zl_block *b, const struct zl_tokens *tok, const float *x)
{
    arrange(b, tok->t);
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

static void map_rows(const struct zl_block *b, int64_t n, const float *in, float *out, bool backward)
{
    const int64_t d = b->model->config.d;
    struct zl_gemm p = {.m = n, .n = d, .n_terms = 1, .c = out, .ldc = d, .bias = backward ? NULL : b->spec.map_b,
                        .part = backward ? ZL_PART_BACKWARD : ZL_PART_FORWARD};
    p.term[0] = (struct zl_gemm_term){.a = in, .lda = d, .b = b->spec.map_a, .b_type = ZL_F32,
                                      .b_layout = backward ? ZL_B_KN : ZL_B_NK, .ldb = d, .k = d, .alpha = 1};
    zl_gemm(&b->team, &p);
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
    const uint32_t last = n_layers(b) - 1; /* its activations are still there: nothing overwrote them */
    for (uint32_t i = n_layers(b); i-- > 0;) {
        if (i != last)
            zl_layer_again(&b->team, b->model, b->spec.first + i, lora_layer(b, i), layer_weights(b, i), tok, &b->acts[i],
                           &b->work, b->mode);
        zl_layer_backward(&b->team, b->model, b->spec.first + i, lora_layer(b, i), layer_weights(b, i),
                          i < b->spec.n_own ? b->g : b->g + b->n_own, tok, &b->acts[i], &b->work, b->dx, i > 0);
    }
}

void zl_block_loss(struct zl_block *b, const struct zl_tokens *tok, const int32_t *labels, float weight, bool backward,
                   struct zl_loss *out)
{
    const struct zl_model *m = b->model;
    const int64_t d = m->config.d;
    *out = (struct zl_loss){0};
    const float *u = forward(b, tok, b->acts[b->spec.n_own - 1].y, b->spec.n_own, n_layers(b));
    int64_t n = gather(b, tok, labels, u);
    if (n == 0)
        return;
    float *z = b->rows[0], *zn = b->rows[2];
    if (b->spec.map) {
        z = b->rows[1];
        map_rows(b, n, b->rows[0], z, false);
    }
    zl_rmsnorm(&b->team, n, d, z, m->norm, (float)m->config.norm_eps, zn, b->rstd);
    struct zl_head head = {.type = m->head.type, .weight = m->head.data, .vocab = m->config.vocab, .d = d,
                           .subset = b->spec.subset, .n_subset = b->spec.n_subset};
    backward = backward && b->spec.train;
    zl_head_loss(&b->team, &head, n, zn, b->target, weight, b->loss, b->argmax, backward ? zn : NULL);
    for (int64_t i = 0; i < n; i++) {
        out->sum += (double)b->loss[i];
        out->correct += b->argmax[i] == b->target[i];
    }
    out->n = (uint64_t)n;
    if (!backward)
        return;
    zl_rmsnorm_backward(&b->team, n, d, zn, z, m->norm, b->rstd, zn, 0);
    if (b->spec.map) {
        map_rows(b, n, zn, b->rows[0], true);
        scatter(b, tok->t, n, b->rows[0]);
    } else {
        scatter(b, tok->t, n, zn);
    }
    backward_layers(b, tok);
}

double zl_block_update(struct zl_block *b, const struct zl_optimizer *o, int64_t step)
{
    ZL_PROFILE(&b->team, ZL_PART_OPTIMIZER);
    if (b->n == 0)
        return 0;
    double norm = sqrt(zl_sum_squares(b->g, (int64_t)b->n));
    if (norm > 0 && isfinite(norm)) {
        float clip = o->clip > 0 ? (float)fmin(1.0, (double)o->clip / (norm + 1e-6)) : 1.0f;
        const struct zl_adamw adamw = {o->lr, o->beta1, o->beta2, o->eps, o->weight_decay};
        zl_adamw_step(&adamw, step, (int64_t)b->n, clip, b->g, b->w, b->m, b->v);
    }
    memset(b->g, 0, b->n * sizeof(float));
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
    for (uint32_t i = 0; i < b->own.n; i++)
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
