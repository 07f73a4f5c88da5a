/*
 * Memory of a block: see block.h. One arena for the activations: the kernels' scratch first, then what lives inside a layer's forward or
 * backward, then one region a slot with what a micro-batch keeps. With one slot its layers and the working memory are laid out together
 * for each micro-batch; with several, regions have fixed places, since micro-batches of different sizes are there at one time.
 */
#include "model/block_impl.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/gemm.h"
#include "kernel/head.h"

static uint32_t n_slots(const struct zl_block *b)
{
    return b->spec.slots > 1 ? b->spec.slots : 1;
}

static uint64_t scratch_bytes(const struct zl_config *c, const struct zl_block_spec *s, int threads)
{
    uint64_t gemm = zl_gemm_scratch_bytes(threads), head = zl_head_scratch_bytes(threads, c->d, s->tokens);
    uint64_t attention = zl_attention_scratch_bytes(threads, (int)c->heads, (int)c->kv_heads, (int)c->head_dim,
                                                    s->longest, s->tokens);
    uint64_t most = gemm > head ? gemm : head;
    return most > attention ? most : attention;
}

/* The layers at the front through which no gradient goes. A block of such layers only computes forward. */
static void find_lead(struct zl_block *b)
{
    const struct zl_block_spec *s = &b->spec;
    if (!s->train || s->need_dx || !s->lora || s->lora->first <= s->first)
        return;
    b->lead = s->lora->first - s->first < s->n_own ? s->lora->first - s->first : s->n_own;
    b->still = b->lead < s->n_own ? b->own.layer[b->lead].group_a[0] : b->own.size;
    b->spec.train = b->lead < zl_block_layers(b);
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
    if (!rc)
        find_lead(b);
    b->n_map = s->map && s->train_map && s->has_loss && s->train ? (uint64_t)c->d * (c->d + 1) : 0;
    b->n = b->own.size + b->shadow.size + b->n_map;
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

/* The largest sum of ranks of each group: an adapter to start from may have another rank in every layer. */
static struct zl_lora_layer widest_ranks(const struct zl_block *b)
{
    struct zl_lora_layer widest = {0};
    for (uint32_t i = 0; i < zl_block_layers(b); i++)
        for (int g = 0; g < ZL_GROUPS; g++)
            if (widest.group_r[g] < zl_block_lora(b, i)->group_r[g])
                widest.group_r[g] = zl_block_lora(b, i)->group_r[g];
    return widest;
}

/* Float32 buffers that all layers of the slot share, wide enough for each; norms' factors and attention's logarithms of each layer that a
 * gradient goes through; the rest as halves. */
static void take_halves(struct zl_block *b, struct zl_arena *a, int64_t tokens, struct zl_again again)
{
    const struct zl_config *c = &b->model->config;
    const uint32_t n = zl_block_layers(b);
    const uint64_t t = (uint64_t)tokens, rows = t * c->d * sizeof(float);
    const struct zl_lora_layer widest = widest_ranks(b);
    struct zl_acts shared;
    zl_acts_take(a, &shared, c, &widest, tokens);
    float *other = n > 1 ? zl_arena_take(a, rows) : NULL;
    for (uint32_t i = 0; i < n; i++) {
        b->acts[i] = shared;
        b->acts[i].y = i % 2 ? other : shared.y;
        if (i < b->lead) {
            zl_kept_take_output(a, &b->kept[i], c, i + 1 < b->lead ? 0 : tokens);
            continue;
        }
        if (i > b->lead) {
            b->acts[i].rstd_attn = zl_arena_take(a, t * sizeof(float));
            b->acts[i].rstd_mlp = zl_arena_take(a, t * sizeof(float));
            b->acts[i].lse = zl_arena_take(a, t * c->heads * sizeof(float));
        }
        zl_kept_take(a, &b->kept[i], c, zl_block_lora(b, i), tokens, zl_block_mode(b, again, i), i + 1 < n);
    }
}

/* What the layers of a slot keep. */
static void take_layers(struct zl_block *b, struct zl_arena *a, int64_t tokens, struct zl_again again)
{
    const struct zl_config *c = &b->model->config;
    const uint64_t rows = (uint64_t)tokens * c->d * sizeof(float);
    if (b->kept) {
        take_halves(b, a, tokens, again);
        return;
    }
    const uint32_t n = zl_block_layers(b), kept = b->spec.train ? b->lead : n - 1; /* the first layer that keeps its own */
    const struct zl_lora_layer widest = widest_ranks(b); /* others compute with its buffers */
    zl_acts_take(a, &b->acts[kept], c, &widest, tokens);
    for (uint32_t i = kept + 1; i < n; i++)
        zl_acts_share(a, &b->acts[i], &b->acts[kept], zl_block_mode(b, again, i), c, zl_block_lora(b, i), tokens);
    /* Forward only: those before it share its buffers; outputs alternate between two. */
    float *y = kept ? zl_arena_take(a, rows) : NULL;
    for (uint32_t i = 0; i < kept; i++) {
        b->acts[i] = b->acts[kept];
        if ((kept - i) % 2)
            b->acts[i].y = y;
    }
    b->dx = b->spec.train ? b->acts[zl_block_layers(b) - 1].y : NULL; /* the last output has been used when the gradient comes */
}

/* What no micro-batch keeps. */
static void take_work(struct zl_block *b, struct zl_arena *a, int64_t tokens)
{
    const struct zl_config *c = &b->model->config;
    const struct zl_block_spec *s = &b->spec;
    const uint64_t t = (uint64_t)tokens, rows = t * c->d * sizeof(float);
    struct zl_lora_layer widest = widest_ranks(b);
    zl_work_take(a, &b->work, c, &(struct zl_lora){.n = 1, .layer = &widest}, tokens, s->train);
    if (b->kept)
        b->gradient = zl_arena_take(a, rows); /* the last output's place is not free: it is one of two that take turns */
    if (!s->has_loss)
        return;
    /* Between forward and backward the wide buffer is free for the labelled rows. */
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
    for (int i = 0; i < 2; i++)
        b->believed[i] = s->belief > 0 && (i == 0 || s->belief_map) ? zl_arena_take(a, rows) : NULL;
    b->rstd = zl_arena_take(a, t * sizeof(float));
    b->loss = zl_arena_take(a, t * sizeof(float));
    b->row_at = zl_arena_take(a, t * sizeof(int32_t));
    b->target = zl_arena_take(a, t * sizeof(int32_t));
    b->argmax = zl_arena_take(a, t * sizeof(int32_t));
}

static uint64_t count_work(struct zl_block *b, int64_t tokens)
{
    struct zl_arena counter = {0};
    take_work(b, &counter, tokens);
    return counter.peak;
}

/* Of one slot; with the working memory where there is only one. */
static uint64_t count_slot(struct zl_block *b, int64_t tokens, struct zl_again again)
{
    struct zl_arena counter = {0};
    take_layers(b, &counter, tokens, again);
    if (n_slots(b) == 1)
        take_work(b, &counter, tokens);
    return counter.peak;
}

/* The memory that a slot may take: that of a micro-batch of keep_tokens as asked, and at least that of the largest one with
 * everything computed again. */
static uint64_t slot_budget(struct zl_block *b)
{
    const struct zl_block_spec *s = &b->spec;
    if (!s->train || s->keep_tokens <= 0 || s->keep_tokens >= s->tokens)
        return count_slot(b, s->tokens, (struct zl_again){s->recompute, 0});
    uint64_t keep = count_slot(b, s->keep_tokens, (struct zl_again){s->recompute, 0});
    uint64_t least = count_slot(b, s->tokens, (struct zl_again){ZL_RECOMPUTE_FULL, 0});
    return keep > least ? keep : least;
}

/* Sets slot_bytes; returns the bytes of all slots and what they share. UINT64_MAX when that is beyond 64 bits. */
static uint64_t activation_budget(struct zl_block *b)
{
    uint64_t sum;
    b->slot_bytes = slot_budget(b);
    if (n_slots(b) == 1)
        return b->slot_bytes;
    if (b->slot_bytes > UINT64_MAX - 63)
        return UINT64_MAX;
    b->slot_bytes = (b->slot_bytes + 63) / 64 * 64;
    if (__builtin_mul_overflow(b->slot_bytes, (uint64_t)n_slots(b), &sum) || __builtin_add_overflow(sum, count_work(b, b->spec.tokens), &sum))
        return UINT64_MAX;
    return sum;
}

void zl_block_select(struct zl_block *b, uint32_t slot)
{
    b->slot = slot;
    b->acts = b->all_acts + (size_t)slot * zl_block_layers(b);
    b->again = b->agains[slot];
    b->kept = b->all_kept ? b->all_kept + (size_t)slot * zl_block_layers(b) : NULL;
    b->dx = b->kept ? b->gradient : b->spec.train ? b->acts[zl_block_layers(b) - 1].y : NULL;
}

/* The least computing again that fits a slot. The layer whose buffers others share is never spared: that would save no memory. */
static struct zl_again least_again(struct zl_block *b, int64_t tokens)
{
    struct zl_again again = {b->spec.recompute, 0};
    while (b->spec.train && again.mode < ZL_RECOMPUTE_FULL && count_slot(b, tokens, again) > b->slot_bytes)
        again.mode++;
    if (again.mode == b->spec.recompute)
        return again;
    uint32_t too_many = zl_block_layers(b) - b->lead;
    while (too_many - again.spared > 1) {
        const uint32_t middle = again.spared + (too_many - again.spared) / 2;
        if (count_slot(b, tokens, (struct zl_again){again.mode, middle}) > b->slot_bytes)
            too_many = middle;
        else
            again.spared = middle;
    }
    return again;
}

/* Pointers move, nothing is allocated. */
void zl_block_arrange(struct zl_block *b, int64_t tokens)
{
    b->again = b->agains[b->slot] = least_again(b, tokens);
    zl_arena_release(&b->activations, b->fixed_mark + b->slot * b->slot_bytes);
    take_layers(b, &b->activations, tokens, b->again);
    b->kept_bytes = zl_arena_mark(&b->activations) - b->fixed_mark - b->slot * b->slot_bytes;
    if (n_slots(b) == 1)
        take_work(b, &b->activations, tokens);
    if (b->kept)
        b->dx = b->gradient;
}

static int prepare(struct zl_block *b, const struct zl_model *m, const struct zl_block_spec *spec, struct zl_error *err)
{
    *b = (struct zl_block){.spec = *spec, .model = m};
    if (layout(b, err))
        return err ? err->code : ZL_EMEMORY;
    b->all_acts = calloc((size_t)n_slots(b) * zl_block_layers(b) + 1, sizeof *b->all_acts);
    b->agains = calloc(n_slots(b), sizeof *b->agains);
    b->acts = b->all_acts;
    const bool halves = spec->halves && b->spec.train;
    if (halves)
        b->kept = b->all_kept = calloc((size_t)n_slots(b) * zl_block_layers(b) + 1, sizeof *b->all_kept);
    return b->all_acts && b->agains && (b->kept || !halves) ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
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
        const uint64_t activations = activation_budget(&b);
        *plan = (struct zl_block_plan){state.peak, activations, scratch_bytes(&m->config, spec, threads), b.slot_bytes, b.n};
    }
    b.spec.lent = NULL;
    zl_block_close(&b);
    return rc;
}

static void start_map(struct zl_block *b)
{
    const size_t d = b->model->config.d;
    if (!b->n_map || !b->spec.map_a)
        return;
    float *a = b->w + (b->n - b->n_map);
    memcpy(a, b->spec.map_a, d * d * sizeof(float));
    memcpy(a + d * d, b->spec.map_b, d * sizeof(float));
}

static void start_weights(struct zl_block *b)
{
    const struct zl_block_spec *s = &b->spec;
    const struct zl_config *c = &b->model->config;
    start_map(b);
    b->own.w = b->w;
    b->shadow.w = b->w ? b->w + b->n_own : NULL; /* a block without adapters has none */
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
    int rc = 0;
    if (!spec->lent_state)
        rc = zl_arena_open(&b->state, "adapters and optimizer", plan.state_bytes, err);
    else if (plan.state_bytes > spec->lent_state->size)
        rc = zl_fail(err, ZL_EMEMORY, "the memory lent for adapters and optimizer is too small for this block");
    if (!rc && !spec->lent)
        rc = zl_arena_open(&b->activations, "activations", activations, err);
    else if (!rc && activations > spec->lent->size)
        rc = zl_fail(err, ZL_EMEMORY, "the lent activations are too small for this block");
    if (rc) {
        zl_block_close(b);
        return rc;
    }
    if (spec->lent_state)
        b->state = (struct zl_arena){.owner = spec->lent_state->owner, .base = spec->lent_state->base, .size = spec->lent_state->size};
    if (spec->lent)
        b->activations = (struct zl_arena){.owner = spec->lent->owner, .base = spec->lent->base, .size = spec->lent->size};
    take_state(b, &b->state);
    b->in_use = b->w;
    b->team = (struct zl_team){.threads = threads,
                               .scratch = zl_arena_take(&b->activations, plan.scratch_bytes),
                               .compute = spec->compute,
                               .scratch_bytes = plan.scratch_bytes};
    activation_budget(b);
    if (n_slots(b) > 1)
        take_work(b, &b->activations, spec->tokens);
    b->fixed_mark = zl_arena_mark(&b->activations);
    for (uint32_t slot = n_slots(b); slot-- > 0;) {
        zl_block_select(b, slot);
        zl_block_arrange(b, spec->tokens);
    }
    start_weights(b);
    return 0;
}

void zl_block_close(struct zl_block *b)
{
    zl_lora_free(&b->own);
    zl_lora_free(&b->shadow);
    free(b->all_acts);
    free(b->agains);
    free(b->all_kept);
    if (!b->spec.lent_state)
        zl_arena_close(&b->state);
    if (!b->spec.lent)
        zl_arena_close(&b->activations);
    *b = (struct zl_block){0};
}
