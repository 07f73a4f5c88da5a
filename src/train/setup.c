/* From options to everything a run needs: see setup.h. */
#include "train/setup.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "train/anchor.h"
#include "train/checkpointing.h"
#include "train/costs.h"
#include "train/frozen.h"

#define PROGRAM_BYTES (UINT64_C(4) << 20) /* pages of the program, its libraries and a model file's header that a run touches */

static int read_corpus(struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err)
{
    const struct zl_corpus_request r = {.model = o->model,
                                        .data = o->data.v,
                                        .n_data = o->data.n,
                                        .adapter = o->init_adapter,
                                        .into = &s->init,
                                        .held_out_file = o->eval_data,
                                        .held_out_share = o->eval_split,
                                        .max_length = o->max_length,
                                        .seed = o->seed,
                                        .quiet = o->quiet || o->again};
    int rc = zl_corpus_open(&s->corpus, &r, err);
    zl_tokenizer_close(s->corpus.tokenizer); /* its megabytes have done their work */
    s->corpus.tokenizer = NULL;
    return rc;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* An adapter learns by its steps: little data is taken in more and smaller ones, though not smaller than products like them. */
static void choose_batch(struct zl_setup *s, const struct zl_train_options *o)
{
    const uint64_t most = 2048, least = 256, steps = 20, wanted = s->corpus.train.report.tokens / steps;
    s->batch_tokens = wanted > most ? most : larger(least, wanted / 64 * 64);
    s->batch_tokens = o->batch_tokens ? o->batch_tokens : larger(s->batch_tokens, o->micro_batch_tokens);
    if (!o->batch_tokens && s->batch_tokens < most)
        zl_note("steps of at most %llu tokens, by the size of the data", (unsigned long long)s->batch_tokens);
}

static uint64_t longest_example(const struct zl_setup *s)
{
    return larger(s->corpus.train.report.longest, s->corpus.held_out.report.longest);
}

static int plan_order(struct zl_setup *s, const struct zl_train_options *o, uint64_t micro, struct zl_error *err)
{
    const struct zl_schedule_options train = {.seed = o->seed,
                                              .batch_tokens = larger(s->batch_tokens, micro),
                                              .micro_batch_tokens = micro,
                                              .steps = o->steps,
                                              .epochs = o->epochs,
                                              .shuffle = true};
    zl_data_order_free(&s->order);
    zl_data_order_free(&s->eval_order);
    int rc = zl_data_order_plan(&s->corpus.train, &train, &s->order, err);
    if (rc || s->corpus.held_out.n_examples == 0)
        return rc;
    const struct zl_schedule_options eval = {
        .batch_tokens = UINT64_C(1) << 40, .micro_batch_tokens = micro, .epochs = 1};
    return zl_data_order_plan(&s->corpus.held_out, &eval, &s->eval_order, err);
}

/* The readout's products of a labelled token, in products of one layer's: both are made once forward and once backward. */
static double readout_layers(const struct zl_setup *s)
{
    const struct zl_config *c = &s->corpus.model.config;
    const struct zl_data_report *r = &s->corpus.train.report;
    double layer = 0;
    for (enum zl_role role = 0; role < ZL_LINEARS; role++)
        layer += (double)zl_linear_in(c, role) * zl_linear_out(c, role);
    return r->tokens ? (double)r->trained / (double)r->tokens * c->vocab * c->d / layer : 0;
}

/* With local losses only the last stage's gradient is exact: it gets the layers that train, and no other. */
static uint32_t exact_last(const struct zl_train_options *o, uint32_t layers)
{
    const bool equal = o->preset == ZL_PRESET_PAPER;
    return zl_schedules[o->schedule].local && !o->bounds.n && !equal && o->train_layers < layers ? (uint32_t)o->train_layers : 0;
}

static int cut(struct zl_setup *s, const struct zl_train_options *o, uint64_t wanted, uint32_t lighter, struct zl_error *err)
{
    s->schedule = zl_schedule_make(o->schedule, (uint32_t)o->lag, o->replay == ZL_ON);
    const struct zl_schedule *schedule = &s->schedule;
    const uint32_t layers = s->corpus.model.config.layers;
    const uint64_t parts = o->interleave > 1 ? o->interleave : 1;
    const uint64_t stages = schedule->single ? 1 : wanted > ZL_STAGES_MAX ? ZL_STAGES_MAX + 1 : wanted * parts;
    const uint64_t equal = wanted ? (layers + wanted - 1) / wanted : layers; /* layers of a stage */
    uint64_t look_ahead = o->look_ahead;
    if (o->schedule == ZL_SCHEDULE_SWEEP && !look_ahead && equal < zl_partition_look_ahead(layers)) /* what is looked ahead through is in memory with the block */
        look_ahead = equal;
    if (o->bounds.n && o->bounds.n != stages && !schedule->single)
        return zl_fail(err, ZL_EUSAGE, "--bounds names %zu first layers, but there are %llu %s", o->bounds.n,
                       (unsigned long long)stages, parts > 1 ? "parts of stages" : "stages");
    const struct zl_partition_request r = {.layers = layers,
                                           .stages = (uint32_t)(stages > UINT32_MAX ? UINT32_MAX : stages),
                                           .readout = schedule->local ? o->readout : ZL_READOUT_LENS,
                                           .look_ahead = (uint32_t)(look_ahead > layers ? layers : look_ahead),
                                           .bounds = schedule->single || !o->bounds.n ? NULL : o->bounds.v,
                                           .equal = o->preset == ZL_PRESET_PAPER,
                                           .tail = schedule->local ? 0 : readout_layers(s),
                                           .lighter = lighter,
                                           .front = schedule->weights == ZL_WEIGHTS_REPLAYED ? 1.5 : 1,
                                           .still = s->lora.first,
                                           .last = exact_last(o, layers),
                                           .freeze = schedule->local ? o->freeze.v : NULL,
                                           .n_freeze = schedule->local && !zl_freeze_auto(o) ? (uint32_t)o->freeze.n : 0};
    return zl_partition_make(&r, &s->partition, err);
}

static int shape_adapter(struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err)
{
    const struct zl_config *c = &s->corpus.model.config;
    if (o->train_layers > c->layers)
        return zl_fail(err, ZL_EUSAGE, "--train-layers %llu: the model has %u layers", (unsigned long long)o->train_layers, c->layers);
    s->lora = (struct zl_lora_spec){.rank = (uint32_t)o->rank,
                                    .alpha = (float)o->alpha,
                                    .first = o->train_layers ? c->layers - (uint32_t)o->train_layers : 0,
                                    .normal_init = o->preset == ZL_PRESET_PAPER};
    char all[16] = "all";
    for (size_t i = 0; i < (o->targets.n ? o->targets.n : 1); i++) {
        uint32_t bits = 0;
        if (zl_lora_targets(o->targets.n ? o->targets.v[i] : all, &bits, err))
            return ZL_EUSAGE;
        s->lora.targets |= bits;
    }
    s->adapter_config = (struct zl_adapter_config){
        .base_model = o->model, .r = (uint32_t)o->rank, .alpha = o->alpha, .targets = s->targets, .task_type = "CAUSAL_LM", .layers = c->layers};
    if (o->init_adapter) {
        s->lora.targets = 0;
        for (int role = 0; role < ZL_LINEARS; role++)
            for (size_t i = 0; i < s->init.n; i++) {
                const char *dot = strrchr(s->init.modules[i].name, '.');
                if (dot && strcmp(dot + 1, zl_linear_names[role]) == 0)
                    s->lora.targets |= 1u << role;
            }
        if (s->init.n) {
            s->adapter_config.r = s->init.modules[0].r;
            s->adapter_config.alpha = (double)s->init.modules[0].scale * s->init.modules[0].r;
        }
        s->lora.first = zl_adapter_first_layer(&s->init, c, s->lora.first);
        if (s->lora.first == c->layers)
            return zl_fail(err, ZL_EUSAGE, "%s adapts none of the last %llu layers, so --train-layers %llu would train nothing", o->init_adapter,
                           (unsigned long long)o->train_layers, (unsigned long long)o->train_layers);
    }
    for (int role = 0; role < ZL_LINEARS; role++)
        if (s->lora.targets >> role & 1)
            s->targets[s->adapter_config.n_targets++] = zl_linear_names[role];
    return 0;
}

/* Stages on workers, and the cores on the workers so that the slowest is as fast as can be. */
static int place(struct zl_setup *s, const struct zl_train_options *o, enum zl_placement placement, struct zl_error *err)
{
    const uint32_t round = o->interleave > 1 ? s->partition.n / (uint32_t)o->interleave : s->partition.n;
    double work[ZL_STAGES_MAX] = {0};
    struct zl_costs costs;
    zl_places_choose(&s->places, placement, s->partition.n, round, (uint32_t)s->threads);
    zl_costs_estimate(s, &costs);
    for (uint32_t k = 0; k < s->partition.n; k++)
        work[s->places.worker_of[k]] += zl_costs_of_stage(&costs, s, k);
    return zl_cores_divide(&s->cores, s->threads, (int)s->places.n_workers, work, s->groups, err);
}

/* Where the caller left it open: what the costs say is faster, and of two that are about as fast the one that needs less memory. */
static int choose_places(struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err)
{
    s->placement = o->schedule == ZL_SCHEDULE_SWEEP ? ZL_PLACEMENT_STACKED : o->placement;
    if (s->placement != ZL_PLACEMENT_AUTO)
        return place(s, o, s->placement, err);
    struct zl_costs costs;
    double spread = 0, stacked = 0;
    zl_costs_estimate(s, &costs);
    const struct zl_pipeline_options kept = s->pipeline;
    s->pipeline.tokens = 1;
    s->pipeline.ring_depth = (uint32_t)o->ring_depth;
    s->pipeline.micro_per_step = larger(1, s->batch_tokens / larger(1, o->micro_batch_tokens));
    int rc = place(s, o, ZL_PLACEMENT_STACKED, err);
    if (!rc)
        rc = zl_costs_speed(&costs, s, &stacked, err);
    if (!rc)
        rc = place(s, o, ZL_PLACEMENT_SPREAD, err);
    if (!rc)
        rc = zl_costs_speed(&costs, s, &spread, err);
    s->pipeline = kept;
    s->placement = s->schedule.local && stacked > 0.97 * spread ? ZL_PLACEMENT_STACKED : ZL_PLACEMENT_SPREAD;
    return rc || s->placement == ZL_PLACEMENT_SPREAD ? rc : place(s, o, s->placement, err);
}

static int share_cores(struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err)
{
    int rc = zl_cores_detect(&s->cores, err);
    if (rc)
        return rc;
    s->threads = o->threads ? (int)(o->threads > ZL_CORES_MAX ? ZL_CORES_MAX : o->threads) : s->cores.n;
    s->groups = calloc(s->partition.n, sizeof *s->groups);
    if (!s->groups)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    s->n_cached = zl_frozen_stages(s, o);
    rc = choose_places(s, o, err);
    if (!rc && o->placement != ZL_PLACEMENT_STACKED && o->schedule != ZL_SCHEDULE_SWEEP && s->threads < (int)s->partition.n && o->interleave <= 1)
        zl_note("%u stages share %d core%s", s->partition.n, s->threads, s->threads == 1 ? "" : "s");
    return rc;
}

static bool needs_subset(const struct zl_setup *s, const struct zl_train_options *o)
{
    bool local_head = false;
    for (uint32_t k = 0; k + 1 < s->partition.n; k++)
        local_head |= !s->partition.cut[k].frozen;
    return zl_schedules[o->schedule].local && local_head && o->local_vocabulary == ZL_LOCAL_VOCABULARY_DATA;
}

static uint64_t most_micro(const struct zl_data_order *o)
{
    uint64_t most = 1;
    for (uint64_t i = 0; i < o->n_steps; i++)
        most = larger(most, o->steps[i].n_micro);
    return most;
}

/* What was left open: a usual lag, unless the first stage's gradients then were late by more than half a step. */
static uint32_t lag_of(const struct zl_setup *s, const struct zl_train_options *o)
{
    const uint64_t late = (uint64_t)ZL_LAG_USUAL * (s->partition.n - 1);
    return o->lag ? (uint32_t)o->lag : 2 * late * s->order.n_steps <= s->order.n_micro ? ZL_LAG_USUAL : 1;
}

/* Order and memory of one candidate: so many tokens a micro-batch, so much computed again. */
static int plan_with(struct zl_setup *s, const struct zl_train_options *o, uint64_t micro, enum zl_recompute recompute,
                     struct zl_error *err)
{
    int rc = plan_order(s, o, micro, err);
    if (rc)
        return rc;
    s->schedule = zl_schedule_make(o->schedule, lag_of(s, o), o->replay == ZL_ON);
    s->n_anchored = zl_anchor_stages(s, o);
    s->n_cached = zl_frozen_stages(s, o);
    s->pipeline = (struct zl_pipeline_options){
        .n_passing = s->n_cached,
        .anchor = s->n_anchored > 0,
        .lora = &s->lora,
        .adapter = s->init.n ? &s->init : NULL,
        .recompute = recompute,
        .halves = o->activations == ZL_ACTIVATIONS_BF16,
        .compute = o->compute,
        .map_a = s->readouts.a,
        .map_b = s->readouts.b,
        .train_map = o->train_map == ZL_ON,
        .belief = o->belief_weight > 0 ? (float)(1 - o->belief_weight) : 0,
        .subset = s->subset,
        .subset_index = s->subset_index,
        .n_subset = s->n_subset,
        .seed = o->seed,
        .tokens = (int64_t)larger(s->order.largest_micro_tokens, s->eval_order.largest_micro_tokens),
        .seqs = (int64_t)larger(s->order.largest_micro_examples, s->eval_order.largest_micro_examples),
        .longest = (int64_t)longest_example(s),
        .keep_tokens = (int64_t)micro,
        .ring_depth = (uint32_t)o->ring_depth,
        .optimizer = {.beta1 = (float)o->beta1,
                      .beta2 = (float)o->beta2,
                      .eps = (float)o->adam_eps,
                      .weight_decay = (float)o->weight_decay,
                      .clip = (float)o->clip},
        .schedule = &s->schedule,
        .vertical_sync = o->vertical_sync,
        .micro_per_step = most_micro(&s->order),
        .n_workers = s->places.n_workers,
        .worker_of = s->places.worker_of,
        .common = s->places.common,
        .groups = s->groups,
    };
    rc = zl_pipeline_plan(&s->corpus.model, &s->partition, &s->pipeline, &s->plan, err);
    if (!rc && o->schedule == ZL_SCHEDULE_SWEEP) {
        rc = zl_sweep_plan(s, o, &s->sweep, err);
        s->plan.ring_bytes = 0;
        s->plan.total_bytes = rc ? 0 : s->sweep.total_bytes - s->sweep.resident_bytes;
    }
    if (!rc)
        rc = zl_checkpointing_plan(s, o, &s->checkpoint_bytes, &s->checkpoint_file_bytes, err);
    if (!rc)
        s->plan.total_bytes += zl_frozen_memory(s) + zl_anchor_memory(s) + s->checkpoint_bytes;
    return rc;
}

uint64_t zl_setup_resident_bytes(const struct zl_setup *s)
{
    return s->sweep.resident_bytes ? s->sweep.resident_bytes : s->corpus.model.weight_bytes;
}

uint64_t zl_setup_expected_bytes(const struct zl_setup *s)
{
    return s->pss_before + zl_setup_resident_bytes(s) + s->plan.total_bytes;
}

/* The system grants more than it has and kills somebody later: compare with what is there before the first page is touched. */
static int check_available(const struct zl_setup *s, struct zl_error *err)
{
    const uint64_t available = zl_memory_available();
    if (s->plan.total_bytes <= available)
        return 0;
    return zl_fail(err, ZL_EMEMORY,
                   "this run needs %.0f MiB of memory beside the model, but %.0f MiB are available; smaller --micro-batch-tokens, "
                   "--max-length or --rank, or --memory-limit, make it need less",
                   (double)s->plan.total_bytes / 1048576, (double)available / 1048576);
}

/* A sweep under a limit takes as few stages as fit, since every boundary costs gradient, unless it was told how many. */
static bool choose_stages(const struct zl_train_options *o)
{
    return o->schedule == ZL_SCHEDULE_SWEEP && o->memory_limit && !o->bounds.n && !ZL_GIVEN(o, stages);
}

/* Layers that take the memory of the output head, which a sweep's last stage holds beside its own: where the stages are to be as light as can
 * be, it has so many fewer. 0 where the cut is given by other rules. */
static uint32_t head_layers(const struct zl_setup *s, const struct zl_train_options *o)
{
    const struct zl_model *m = &s->corpus.model;
    const uint64_t all = zl_model_layer_bytes(m, 0, m->config.layers);
    const bool free = choose_stages(o) && o->preset != ZL_PRESET_PAPER && !exact_last(o, m->config.layers);
    return free && all ? (uint32_t)(m->head.bytes * m->config.layers / all) : 0;
}

/* Without a limit: as asked. With one: the fastest way that fits, where keeping activations comes before computing them again, and
 * both before micro-batches under 192 tokens, at which the products with the weights become slow. An example longer than the
 * micro-batch is alone in it, and computes again as much as it must. */
static int fit(struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err)
{
    const uint64_t exact = o->micro_batch_exact, wish = exact ? exact : o->micro_batch_tokens;
    const uint64_t asked = wish < s->batch_tokens ? wish : s->batch_tokens;
    malloc_trim(0); /* what reading left behind goes back to the system */
    zl_memory_pss(&s->private_before);
    s->pss_before = s->private_before + PROGRAM_BYTES; /* pages of the weights that were looked at are counted with the weights */
    if (!o->memory_limit) {
        int rc = plan_with(s, o, asked, o->recompute, err);
        return rc ? rc : check_available(s, err);
    }
    const uint64_t floors[] = {asked < 192 || exact ? asked : 192, exact ? asked : 64};
    const uint32_t layers = s->corpus.model.config.layers, last = exact_last(o, layers);
    const uint64_t most_stages = choose_stages(o) ? larger(s->partition.n, layers - last + (last > 0)) : s->partition.n;
    for (int f = 0; f < 2; f++)
        for (uint64_t i = choose_stages(o) ? 2 * o->stages : 2 * s->partition.n + 1; i / 2 <= most_stages && i / 2 <= ZL_STAGES_MAX; i++) {
            const uint32_t lighter = i % 2 ? head_layers(s, o) : 0;
            if (i % 2 && choose_stages(o) && !lighter)
                continue;
            int rc = choose_stages(o) ? cut(s, o, i / 2, lighter, err) : 0;
            if (choose_stages(o))
                zl_places_choose(&s->places, ZL_PLACEMENT_STACKED, s->partition.n, s->partition.n, (uint32_t)s->groups[0].n);
            for (int mode = (int)o->recompute; !rc && mode <= ZL_RECOMPUTE_FULL; mode++)
                for (uint64_t micro = asked;; micro = larger(micro * 3 / 4, floors[f])) {
                    rc = plan_with(s, o, micro, (enum zl_recompute)mode, err);
                    if (rc || zl_setup_expected_bytes(s) <= o->memory_limit)
                        return rc;
                    if (micro <= floors[f])
                        break;
                }
            if (rc)
                return rc;
        }
    return zl_fail(err, ZL_EMEMORY,
                   "--memory-limit of %.0f MiB is too little: %.0f MiB is the least that this run needs with examples of %llu "
                   "tokens (%.0f MiB of them are the model's weights); a smaller --max-length needs less%s",
                   (double)o->memory_limit / 1048576, (double)zl_setup_expected_bytes(s) / 1048576, (unsigned long long)longest_example(s),
                   (double)zl_setup_resident_bytes(s) / 1048576,
                   o->schedule == ZL_SCHEDULE_SWEEP ? "" : ", and --schedule sweep needs only a part of the weights at a time");
}

int zl_setup_check_compute(enum zl_compute compute, struct zl_error *err)
{
    const char *missing = zl_compute_missing(compute);
    return missing ? zl_fail(err, ZL_ESYSTEM, "--compute %s: %s", zl_compute_names[compute], missing) : 0;
}

int zl_setup_check_weights(enum zl_compute compute, const struct zl_model *m, struct zl_error *err)
{
    for (uint32_t i = 0; i < m->config.layers; i++)
        for (enum zl_role role = 0; role < ZL_LINEARS; role++)
            if (zl_compute_has(compute, m->layer[i].linear[role].type))
                return 0;
    return zl_fail(err, ZL_EUSAGE, "--compute %s: %s stores its layers as %s, not as integers", zl_compute_names[compute], m->path,
                   zl_type_info[m->layer[0].linear[0].type].name);
}

static void note_look_ahead(const struct zl_setup *s, const struct zl_train_options *o)
{
    uint32_t most = 0;
    for (uint32_t k = 0; k < s->partition.n; k++)
        most = s->partition.cut[k].n_shadow > most ? s->partition.cut[k].n_shadow : most;
    if (most && o->look_ahead > most)
        zl_note("--look-ahead %llu ends with the model: behind the stages there are at most %u layers", (unsigned long long)o->look_ahead, most);
}

int zl_setup_make(struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err)
{
    *s = (struct zl_setup){0};
    int rc = zl_setup_check_compute(o->compute, err);
    if (!rc)
        rc = read_corpus(s, o, err);
    if (!rc)
        choose_batch(s, o);
    if (!rc)
        rc = shape_adapter(s, o, err);
    if (!rc)
        rc = cut(s, o, o->stages, 0, err);
    if (!rc && needs_subset(s, o))
        rc = zl_corpus_vocabulary(&s->corpus.train, s->corpus.model.config.vocab, &s->subset, &s->n_subset, &s->subset_index,
                                  err);
    if (!rc)
        rc = share_cores(s, o, err);
    if (rc)
        return rc;
    rc = fit(s, o, err);
    if (!rc)
        note_look_ahead(s, o);
    return rc;
}

int zl_setup_readouts(struct zl_setup *s, const struct zl_train_options *o, uint64_t tokens, struct zl_error *err)
{
    const int threads = o->threads ? (int)o->threads : s->cores.n;
    return zl_readouts_fit(&s->corpus, &s->order, &s->partition, threads, tokens, &s->readouts, err);
}

int zl_setup_cut_again(struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err)
{
    int rc = cut(s, o, s->partition.n, 0, err);
    for (uint32_t k = 0; !rc && k < s->partition.n; k++)
        if (!s->partition.cut[k].map) {
            zl_map_free(&s->readouts.map[k]);
            s->readouts.a[k] = s->readouts.b[k] = NULL;
        }
    if (!rc && !needs_subset(s, o)) {
        free(s->subset);
        free(s->subset_index);
        s->subset = s->subset_index = NULL;
        s->n_subset = 0;
    }
    if (!rc)
        rc = choose_places(s, o, err);
    return rc ? rc : plan_with(s, o, (uint64_t)s->pipeline.keep_tokens, s->pipeline.recompute, err);
}

int zl_setup_variant(struct zl_setup *v, const struct zl_setup *s, const struct zl_train_options *o, struct zl_error *err)
{
    *v = *s;
    v->order = v->eval_order = (struct zl_data_order){0};
    v->lora = s->lora;
    v->groups = NULL;
    v->sweep = (struct zl_sweep_plan){0};
    int rc = cut(v, o, o->stages, 0, err);
    if (!rc)
        rc = (v->groups = calloc(v->partition.n, sizeof *v->groups)) ? choose_places(v, o, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    return rc ? rc : plan_with(v, o, (uint64_t)s->pipeline.keep_tokens, s->pipeline.recompute, err);
}

void zl_setup_variant_free(struct zl_setup *v)
{
    zl_data_order_free(&v->order);
    zl_data_order_free(&v->eval_order);
    free(v->groups);
    *v = (struct zl_setup){0};
}

void zl_setup_free(struct zl_setup *s)
{
    zl_readouts_free(&s->readouts);
    zl_adapter_free(&s->init);
    zl_data_order_free(&s->order);
    zl_data_order_free(&s->eval_order);
    zl_corpus_close(&s->corpus);
    free(s->subset);
    free(s->subset_index);
    free(s->groups);
    *s = (struct zl_setup){0};
}
