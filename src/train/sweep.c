/*
 * The sweep schedule's driver: see sweep.h. One thread computes (with the block's team) and lets the spill read ahead and write behind.
 *
 * Record of the states' file: 3 k + turned: block k's adapters and moments at the last border; 3 k + !turned: where its turn in the
 * window under way leaves them; 3 k + 2: its readout's map. When the last block is done, `turned` flips: the window counts as a whole or
 * not at all. A block that trains nothing has one state and stays at 3 k.
 */
#include "train/sweep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "train/hidden.h"
#include "train/sweep_impl.h"

/* What goes through a block in one turn. */
struct turn {
    const struct zl_dataset *data;
    const struct zl_data_order *order;
    uint64_t first, n; /* micro-batches of the order */
    bool train;
    uint64_t first_step, steps; /* training: number of the first step, from 1, and how many */
    uint64_t tokens;     /* of all */
    struct zl_eval_record *eval;
};

uint64_t zl_sweep_map_record(uint32_t k)
{
    return 3 * (uint64_t)k + 2;
}

static uint64_t state_record(const struct zl_sweep *w, uint32_t k, bool next)
{
    return 3 * (uint64_t)k + (w->block[k].spec.train && w->turned != next);
}

/* ---- opening ---- */

static int open_files(struct zl_sweep *w, const char *dir, struct zl_error *err)
{
    const struct zl_setup *s = w->s;
    const struct zl_sweep_plan *p = &s->sweep;
    const uint32_t n = s->partition.n;
    uint64_t bytes[3 * ZL_STAGES_MAX];
    for (uint32_t k = 0; k < n; k++) {
        bytes[3 * k] = bytes[3 * k + 1] = s->plan.block[k].state_bytes;
        bytes[3 * k + 2] = s->partition.cut[k].map ? (uint64_t)s->corpus.model.config.d * (s->corpus.model.config.d + 1) * sizeof(float) : 0;
    }
    const uint64_t largest = p->state_bytes > p->map_bytes ? p->state_bytes : p->map_bytes;
    const struct zl_spill_request states = {.what = "adapters and optimizers", .dir = dir, .bytes = p->states_bytes, .largest = largest,
                                            .records = 3 * (uint64_t)n, .unbuffered = true};
    const struct zl_spill_request hidden = {.what = "hidden states", .dir = dir, .bytes = p->hidden_bytes, .largest = p->largest,
                                            .records = p->records};
    int rc = zl_spill_open(&w->states, &states, err);
    if (!rc)
        zl_spill_layout(w->states, bytes, 3 * (uint64_t)n);
    if (!rc && n > 1)
        rc = zl_spill_open(&w->hidden, &hidden, err);
    return rc;
}

static int open_memory(struct zl_sweep *w, struct zl_error *err)
{
    const struct zl_setup *s = w->s;
    const struct zl_sweep_plan *p = &s->sweep;
    w->layout = zl_packet_layout((uint64_t)s->pipeline.tokens, (uint64_t)s->pipeline.seqs, 0);
    int rc = zl_arena_open(&w->activations, "activations", p->activation_bytes, err);
    if (!rc)
        rc = zl_arena_open(&w->state, "adapters and optimizer", zl_spill_room(p->state_bytes), err);
    if (!rc && p->map_bytes)
        rc = zl_arena_open(&w->map, "a readout's map", p->map_bytes, err);
    w->block = calloc(s->partition.n, sizeof *w->block);
    w->updates = calloc(s->partition.n, sizeof *w->updates);
    w->exported = calloc(s->partition.n, sizeof *w->exported);
    w->lora = calloc(s->partition.n, sizeof *w->lora);
    w->bytes = calloc(p->records + 1, sizeof *w->bytes);
    w->record = calloc(p->window + 1, sizeof *w->record);
    w->x = aligned_alloc(64, ((size_t)s->pipeline.tokens * s->corpus.model.config.d * sizeof(float) + 63) / 64 * 64);
    w->packet = aligned_alloc(64, (w->layout.bytes + 63) / 64 * 64);
    if (!rc && (!w->block || !w->updates || !w->exported || !w->lora || !w->bytes || !w->record || !w->x || !w->packet))
        rc = zl_fail(err, ZL_EMEMORY, "out of memory");
    return rc ? rc : zl_sweep_rows_copy(w, err);
}

/* Every block once in the shared memory, to leave its first state in the file. */
static int open_blocks(struct zl_sweep *w, struct zl_error *err)
{
    int rc = 0;
    for (uint32_t k = 0; !rc && k < w->s->partition.n; k++) {
        struct zl_block_spec spec = zl_pipeline_block(&w->s->partition, k, &w->s->pipeline);
        spec.lent = &w->activations;
        spec.lent_state = &w->state;
        spec.local_head = spec.subset ? &w->local_head : NULL;
        spec.map_a = (const float *)(const void *)w->map.base;
        spec.map_b = spec.map ? spec.map_a + (size_t)w->s->corpus.model.config.d * w->s->corpus.model.config.d : NULL;
        memset(w->state.base, 0, w->state.size);
        if (spec.map && spec.train_map)
            rc = zl_spill_load(w->states, zl_sweep_map_record(k), w->map.base, err);
        if (!rc)
            rc = zl_block_open(&w->block[k], &w->s->corpus.model, &spec, w->threads, err);
        if (!rc)
            rc = zl_spill_save(w->states, state_record(w, k, false), w->state.base, err);
    }
    return rc;
}

int zl_sweep_open(struct zl_sweep **out, struct zl_setup *s, const struct zl_train_options *o, const char *spill_dir,
                  struct zl_frozen *frozen, struct zl_error *err)
{
    struct zl_sweep *w = *out = calloc(1, sizeof *w);
    if (!w)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    w->o = o;
    w->frozen = frozen;
    w->s = s;
    w->threads = s->groups[0].n;
    w->optimizer = s->pipeline.optimizer;
    int rc = open_files(w, spill_dir, err);
    if (!rc)
        rc = open_memory(w, err);
    if (!rc)
        rc = zl_sweep_fit(w, err);
    if (!rc)
        rc = open_blocks(w, err);
    if (rc) {
        zl_sweep_close(w);
        *out = NULL;
    }
    return rc;
}

void zl_sweep_close(struct zl_sweep *w)
{
    if (!w)
        return;
    for (uint32_t k = 0; k < w->s->partition.n; k++) {
        if (w->block)
            zl_block_close(&w->block[k]);
        if (w->exported)
            free(w->exported[k]);
    }
    zl_spill_close(w->hidden);
    zl_spill_close(w->states);
    zl_arena_close(&w->activations);
    zl_arena_close(&w->state);
    zl_arena_close(&w->map);
    zl_sweep_rows_free(w);
    free(w->block);
    free(w->updates);
    free(w->exported);
    free(w->lora);
    free(w->bytes);
    free(w->record);
    free(w->x);
    free(w->packet);
    free(w);
}

/* ---- a block's turn ---- */

static int take_block(struct zl_sweep *w, uint32_t k, struct zl_error *err)
{
    const struct zl_block_spec *s = &w->block[k].spec;
    zl_model_layer_advise(w->block[k].model, s->first, s->n_own + s->n_shadow, ZL_ADVICE_SOON);
    int rc = zl_spill_load(w->states, state_record(w, k, false), w->state.base, err);
    if (!rc && s->map && !w->block[k].n_map)
        rc = zl_spill_load(w->states, zl_sweep_map_record(k), w->map.base, err);
    return rc;
}

/* The next block finds its own look-ahead still there, but for what it shares nothing with. */
static void drop_weights(struct zl_sweep *w, uint32_t k)
{
    const struct zl_model *m = w->block[k].model;
    const struct zl_block_spec *s = &w->block[k].spec;
    const bool last = k + 1 == w->s->partition.n;
    zl_model_layer_advise(m, s->first, last ? s->n_own + s->n_shadow : s->n_own, ZL_ADVICE_DONE);
    if (last)
        zl_tensors_advise(m->head.data, m->head.bytes, ZL_ADVICE_DONE);
    if (k == 0)
        zl_tensors_advise(m->embed.data, m->embed.bytes, ZL_ADVICE_DONE);
}

/* Inputs of record i, [t][d]; and the next record's on their way. NULL: a failure. */
static const float *input(struct zl_sweep *w, const struct turn *t, uint32_t k, uint64_t i, struct zl_error *err)
{
    const struct zl_model *m = w->block[k].model;
    const int64_t d = m->config.d, tokens = w->packet->n_tokens;
    if (k == w->s->n_cached && k)
        return zl_frozen_gather(w->frozen, !t->train, t->first + i, w->x, err) ? NULL : w->x;
    if (k == 0) {
        zl_sweep_embed(w, zl_packet_at(w->packet, w->layout.ids), tokens, w->x);
        return w->x;
    }
    const void *spilled = zl_spill_get(w->hidden, i, err);
    if (i + 1 < t->n)
        zl_spill_fetch(w->hidden, i + 1);
    if (!spilled || w->o->spill_type == ZL_SPILL_F32)
        return spilled;
    zl_hidden_load(w->o->spill_type, spilled, w->x, (uint64_t)(tokens * d));
    return w->x;
}

static int hand_on(struct zl_sweep *w, uint64_t i, const float *y, struct zl_error *err)
{
    const uint64_t n = (uint64_t)w->packet->n_tokens * w->s->corpus.model.config.d;
    void *to = zl_spill_make(w->hidden, err);
    if (!to)
        return ZL_ESYSTEM;
    zl_hidden_store(w->o->spill_type, to, y, n);
    return zl_spill_put(w->hidden, i, err);
}

static void book(struct zl_step_record *r, uint32_t k, const struct zl_loss *loss, uint64_t busy_ns)
{
    r->loss_sum[k] += loss->sum;
    r->n[k] += loss->n;
    r->n_micro[k]++;
    r->busy_seconds[k] += 1e-9 * (double)busy_ns;
}

static void update(struct zl_sweep *w, uint32_t k, int64_t *updates, struct zl_step_record *r)
{
    struct zl_block *b = &w->block[k];
    if (!b->spec.train || !b->n)
        return;
    w->optimizer.lr = w->packet->lr;
    const double norm = zl_block_update(b, &w->optimizer, *updates + 1);
    const bool updated = norm > 0 && isfinite(norm);
    r->grad_norm[k] = norm;
    r->skipped[k] = !updated;
    r->updated[k] = updated;
    *updates += updated;
    if (updated && *updates == 2)
        zl_block_unmoved(b, r->unmoved, sizeof r->unmoved);
}

/* The packet of micro-batch i of the turn. */
static void fill(struct zl_sweep *w, const struct turn *t, uint64_t i, uint64_t *step)
{
    *w->packet = (struct zl_packet){0};
    zl_corpus_fill(t->data, t->order, t->first + i, &w->layout, w->packet);
    if (!t->train)
        return;
    const struct zl_step *s = &t->order->steps[*step - 1];
    w->packet->step = *step;
    w->packet->weight = s->n_trained ? (float)(1.0 / (double)s->n_trained) : 0;
    w->packet->lr = (float)zl_learning_rate(w->o, *step, t->order->n_steps);
    w->packet->last_of_step = t->first + i + 1 == s->first_micro + s->n_micro;
    *step += w->packet->last_of_step;
}

/* The loss and the backward of the packet's micro-batch between `start` and `end`, and what it kept meanwhile. */
static void trace_training(struct zl_sweep *w, uint32_t k, uint64_t forwarded, uint64_t start, uint64_t end)
{
    const struct zl_block *b = &w->block[k];
    const struct zl_packet *p = w->packet;
    zl_trace_counter(w->trace, ZL_TRACE_ACTIVATION_BYTES, forwarded, k, b->kept_bytes);
    if (b->loss_end_ns > start) {
        zl_trace_span(w->trace, ZL_TRACE_LOCAL_LOSS, start, b->loss_end_ns, k, p->micro, p->step);
        start = b->loss_end_ns;
    }
    if (b->spec.train)
        zl_trace_span(w->trace, ZL_TRACE_BACKWARD, start, end, k, p->micro, p->step);
    zl_trace_counter(w->trace, ZL_TRACE_ACTIVATION_BYTES, end, k, 0);
}

/* One micro-batch through one block. */
static int compute(struct zl_sweep *w, const struct turn *t, uint32_t k, uint64_t i, int64_t *updates, struct zl_error *err)
{
    struct zl_block *b = &w->block[k];
    struct zl_packet *p = w->packet;
    const bool last = k + 1 == w->s->partition.n;
    const struct zl_tokens tok = {.t = p->n_tokens, .positions = zl_packet_at(p, w->layout.positions), .n_seqs = (int)p->n_seqs,
                                  .seqs = zl_packet_at(p, w->layout.seqs)};
    struct zl_loss loss = {0};
    const uint64_t asked = zl_clock_ns();
    const float *x = input(w, t, k, i, err);
    if (!x)
        return ZL_ESYSTEM;
    const uint64_t start = zl_clock_ns();
    const float *y = zl_block_forward(b, 0, &tok, x);
    const uint64_t forwarded = zl_clock_ns();
    int rc = last ? 0 : hand_on(w, i, y, err);
    const uint64_t handed = zl_clock_ns();
    if (!rc && b->spec.has_loss && (t->train || last))
        zl_block_loss(b, 0, &tok, zl_packet_at(p, w->layout.labels), p->weight, t->train, &loss);
    const uint64_t end = zl_clock_ns();
    if (k)
        zl_trace_span(w->trace, ZL_TRACE_SPILL_READ, asked, start, k, p->micro, p->step);
    zl_trace_span(w->trace, t->train ? ZL_TRACE_FORWARD : ZL_TRACE_EVALUATE, start, forwarded, k, p->micro, p->step);
    if (!last)
        zl_trace_span(w->trace, ZL_TRACE_SPILL_WRITE, forwarded, handed, k, p->micro, p->step);
    if (t->train) {
        struct zl_step_record *r = &w->record[p->step - t->first_step];
        trace_training(w, k, forwarded, handed, end);
        if (!rc && p->last_of_step)
            update(w, k, updates, r);
        book(r, k, &loss, zl_clock_ns() - start);
        if (p->last_of_step && b->spec.train)
            zl_trace_span(w->trace, ZL_TRACE_UPDATE, end, zl_clock_ns(), k, p->micro, p->step);
    } else if (last) {
        t->eval->loss_sum += loss.sum;
        t->eval->n += loss.n;
        t->eval->correct += loss.correct;
    }
    return rc;
}

/* A window through all blocks. ZL_ESTOPPED: the journal stops; what the window did to the blocks does not count. */
static int sweep(struct zl_sweep *w, const struct turn *t, int64_t *updates, struct zl_error *err)
{
    const uint32_t n = w->s->partition.n;
    uint64_t tokens = 0;
    for (uint64_t i = 0; i < t->n; i++)
        w->bytes[i] = zl_sweep_record(w->s, w->o, t->order->micro[t->first + i].n_tokens);
    if (w->hidden)
        zl_spill_layout(w->hidden, w->bytes, t->n);
    for (uint32_t k = w->s->n_cached; k < n; k++) {
        uint64_t step = t->first_step, start = zl_clock_ns();
        int rc = take_block(w, k, err);
        zl_trace_span(w->trace, ZL_TRACE_SPILL_READ, start, zl_clock_ns(), k, t->first, step);
        for (uint64_t i = 0; !rc && i < t->n; i++) {
            if (zl_journal_stopping(w->j))
                return ZL_ESTOPPED;
            fill(w, t, i, &step);
            rc = compute(w, t, k, i, &updates[k], err);
            tokens += w->packet->n_tokens;
            if (t->train) {
                const double share = (double)tokens / ((double)t->tokens * (n - w->s->n_cached));
                zl_journal_progress(w->j, share * (double)t->steps, share * (double)t->tokens);
            }
        }
        start = zl_clock_ns();
        if (!rc && t->train && w->block[k].spec.train)
            rc = zl_spill_save(w->states, state_record(w, k, true), w->state.base, err);
        zl_trace_span(w->trace, ZL_TRACE_SPILL_WRITE, start, zl_clock_ns(), k, t->first + t->n - 1, step - t->train);
        drop_weights(w, k);
        if (rc)
            return rc;
    }
    return w->hidden ? zl_spill_flush(w->hidden, err) : 0;
}

static double stall_seconds(const struct zl_sweep *w)
{
    const uint64_t hidden = w->hidden ? zl_spill_totals(w->hidden).wait_ns : 0;
    return 1e-9 * (double)(hidden + zl_spill_totals(w->states).wait_ns);
}

/* ---- the run ---- */

static void train_window(struct zl_sweep *w, uint64_t n)
{
    struct zl_setup *s = w->s;
    const struct zl_step *first = &s->order.steps[w->step], *end = first + n;
    struct turn t = {.data = &s->corpus.train, .order = &s->order, .train = true, .first_step = w->step + 1, .steps = n,
                     .first = first->first_micro};
    int64_t updates[ZL_STAGES_MAX];
    memcpy(updates, w->updates, s->partition.n * sizeof *updates);
    for (uint64_t i = 0; i < n; i++)
        w->record[i] = (struct zl_step_record){.step = w->step + 1 + i};
    for (const struct zl_step *step = first; step < end; step++) {
        t.n += step->n_micro;
        t.tokens += step->n_tokens;
    }
    int rc = sweep(w, &t, updates, w->j->err);
    if (rc == ZL_ESTOPPED)
        return;
    if (rc) {
        zl_journal_fail(w->j, rc);
        return;
    }
    memcpy(w->updates, updates, s->partition.n * sizeof *updates);
    w->turned = !w->turned;
    w->step += n;
    zl_journal_together(w->j, t.tokens);
    for (uint64_t i = 0; i < n; i++)
        zl_journal_step(w->j, &w->record[i], stall_seconds(w));
}

static void evaluate(struct zl_sweep *w)
{
    struct zl_setup *s = w->s;
    struct zl_eval_record eval = {.step = w->step};
    struct turn t = {.data = &s->corpus.held_out, .order = &s->eval_order, .eval = &eval};
    for (; t.first < s->eval_order.n_micro; t.first += t.n) {
        t.n = zl_sweep_eval_window(s, w->o, t.first);
        int rc = sweep(w, &t, w->updates, w->j->err);
        if (rc && rc != ZL_ESTOPPED)
            zl_journal_fail(w->j, rc);
        if (rc)
            return;
    }
    zl_journal_eval(w->j, &eval);
}

/* Whether an evaluation belongs behind the step. */
static bool due(const struct zl_sweep *w)
{
    const uint64_t every = w->o->eval_every;
    return w->s->eval_order.n_micro > 0 && (w->step == w->s->order.n_steps || (every && w->step % every == 0));
}

void zl_sweep_run(struct zl_sweep *w, struct zl_journal *j, void (*border)(void *context, uint64_t step), void *context)
{
    const uint64_t steps = w->s->order.n_steps;
    const bool eval = w->s->eval_order.n_micro > 0;
    w->j = j;
    w->trace = zl_trace_lane(w->s->pipeline.trace, 0);
    if (eval && w->step == 0)
        evaluate(w); /* and when that is booked, the clock begins */
    else if (!j->start_ns)
        zl_journal_begin(j);
    if (due(w) && w->step && j->last_eval_step != w->step && !zl_journal_stopping(j))
        evaluate(w); /* who stopped the run before did not wait for it */
    while (w->step < steps && !zl_journal_stopping(j)) {
        train_window(w, zl_sweep_window(w->s, w->o, w->step));
        if (due(w) && !zl_journal_stopping(j))
            evaluate(w);
        if (border && w->step == j->steps_done && !j->rc)
            border(context, w->step);
    }
}

/* ---- what others want of the blocks ---- */

int zl_sweep_visit(struct zl_sweep *w, bool change, uint64_t *step, zl_sweep_visitor *visit, void *context, struct zl_error *err)
{
    int rc = 0;
    for (uint32_t k = 0; !rc && k < w->s->partition.n; k++) {
        rc = zl_spill_load(w->states, state_record(w, k, false), w->state.base, err);
        if (!rc)
            rc = visit(context, k, &w->block[k], &w->updates[k], err);
        if (!rc && change)
            rc = zl_spill_save(w->states, state_record(w, k, false), w->state.base, err);
    }
    *(change ? &w->step : step) = *(change ? step : &w->step);
    return rc;
}

static int copy_adapter(void *context, uint32_t k, struct zl_block *b, int64_t *updates, struct zl_error *err)
{
    struct zl_sweep *w = context;
    (void)updates;
    free(w->exported[k]);
    w->exported[k] = malloc((b->own.size + 1) * sizeof(float));
    if (!w->exported[k])
        return zl_fail(err, ZL_EMEMORY, "out of memory for the adapter");
    memcpy(w->exported[k], b->own.w, b->own.size * sizeof(float));
    w->lora[k] = b->own;
    w->lora[k].w = w->exported[k];
    return 0;
}

int zl_sweep_adapters(struct zl_sweep *w, const struct zl_lora **parts, struct zl_error *err)
{
    uint64_t step;
    int rc = zl_sweep_visit(w, false, &step, copy_adapter, w, err);
    for (uint32_t k = 0; k < w->s->partition.n; k++)
        parts[k] = &w->lora[k];
    return rc;
}
