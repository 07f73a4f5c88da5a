/* What a sweep takes: see sweep_plan.h. */
#include "train/sweep_plan.h"

#include "store/spill.h"
#include "train/frozen.h"
#include "train/hidden.h"
#include "train/setup.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* A sum that stops at UINT64_MAX, which nothing grants, instead of wrapping. */
static uint64_t plus(uint64_t a, uint64_t b)
{
    return a + b < a ? UINT64_MAX : a + b;
}

static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t map_bytes(const struct zl_setup *s)
{
    const uint64_t d = s->corpus.model.config.d;
    return zl_spill_room(times(d * (d + 1), sizeof(float)));
}

/* The state of every block twice, and its map. */
static uint64_t states_bytes(const struct zl_setup *s)
{
    uint64_t sum = 0;
    for (uint32_t k = 0; k < s->partition.n; k++)
        sum = plus(sum, plus(times(2, zl_spill_room(s->plan.block[k].state_bytes)), s->partition.cut[k].map ? map_bytes(s) : 0));
    return sum;
}

uint64_t zl_sweep_record(const struct zl_setup *s, const struct zl_train_options *o, uint64_t tokens)
{
    return times(times(tokens, s->corpus.model.config.d), zl_hidden_size(o->spill_type));
}

/* What --spill-limit leaves for hidden states. */
static uint64_t hidden_budget(const struct zl_setup *s, const struct zl_train_options *o)
{
    const uint64_t states = plus(states_bytes(s), zl_frozen_file_bytes(s, o));
    return !o->spill_limit ? UINT64_MAX : o->spill_limit > states ? o->spill_limit - states : 0;
}

static uint64_t step_bytes(const struct zl_setup *s, const struct zl_train_options *o, uint64_t index)
{
    const struct zl_step *step = &s->order.steps[index];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < step->n_micro; i++)
        sum = plus(sum, zl_spill_room(zl_sweep_record(s, o, s->order.micro[step->first_micro + i].n_tokens)));
    return sum;
}

/* Where no window is asked for: weights that are read once for so many tokens cost few bytes a token beside the hidden states. */
enum { WINDOW_TOKENS = 32768, WINDOW_STEPS = 16 };

static uint64_t step_tokens(const struct zl_setup *s, uint64_t index)
{
    const struct zl_step *step = &s->order.steps[index];
    uint64_t sum = 0;
    for (uint64_t i = 0; i < step->n_micro; i++)
        sum += s->order.micro[step->first_micro + i].n_tokens;
    return sum;
}

uint64_t zl_sweep_window(const struct zl_setup *s, const struct zl_train_options *o, uint64_t done)
{
    const uint64_t budget = hidden_budget(s, o);
    const bool eval = s->eval_order.n_micro && o->eval_every;
    uint64_t n = 0, tokens = 0;
    for (uint64_t bytes = 0; done + n < s->order.n_steps; n++) {
        if (o->window ? n >= o->window : n >= WINDOW_STEPS && tokens >= WINDOW_TOKENS)
            break;
        if (n && eval && (done + n) % o->eval_every == 0)
            break;
        bytes = plus(bytes, step_bytes(s, o, done + n));
        if (n && bytes > budget)
            break;
        tokens += step_tokens(s, done + n);
    }
    return n;
}

uint64_t zl_sweep_eval_window(const struct zl_setup *s, const struct zl_train_options *o, uint64_t first)
{
    const struct zl_data_order *e = &s->eval_order;
    const uint64_t budget = hidden_budget(s, o);
    uint64_t n = 0;
    for (uint64_t bytes = 0; first + n < e->n_micro; n++) {
        bytes = plus(bytes, zl_spill_room(zl_sweep_record(s, o, e->micro[first + n].n_tokens)));
        if (n && bytes > budget)
            break;
    }
    return n;
}

/* The hidden states of micro-batches first .. first + n - 1. */
static void count_records(const struct zl_setup *s, const struct zl_train_options *o, const struct zl_micro_batch *micro, uint64_t n,
                          struct zl_sweep_plan *p)
{
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < n; i++)
        bytes = plus(bytes, zl_spill_room(zl_sweep_record(s, o, micro[i].n_tokens)));
    p->hidden_bytes = larger(p->hidden_bytes, bytes);
    p->records = larger(p->records, n);
}

/* The passes of the fit run on blocks that only go forward. */
static int forward_bytes(const struct zl_setup *s, uint32_t layers, uint64_t *bytes, struct zl_error *err)
{
    const struct zl_block_spec spec = {.n_own = layers, .tokens = s->order.largest_micro_tokens, .longest = s->corpus.train.report.longest};
    struct zl_block_plan plan;
    int rc = zl_block_plan(&s->corpus.model, &spec, s->groups[0].n, &plan, err);
    if (!rc)
        *bytes = larger(*bytes, plus(plan.activation_bytes, plan.scratch_bytes));
    return rc;
}

/* The fit keeps each map's input and the running states of its samples, as float32. */
static void count_fit(const struct zl_setup *s, struct zl_sweep_plan *p)
{
    const uint64_t d = s->corpus.model.config.d, wanted = 8 * d;
    uint64_t bytes = 0, tokens = 0, n = 0;
    for (; n < s->order.n_micro && tokens < wanted; n++) {
        tokens += s->order.micro[n].n_tokens;
        bytes = plus(bytes, zl_spill_room(times(s->order.micro[n].n_tokens * d, sizeof(float))));
    }
    p->hidden_bytes = larger(p->hidden_bytes, times(bytes, p->n_maps + 1));
    p->records = larger(p->records, times(n, p->n_maps + 1));
    p->largest = larger(p->largest, times(times(s->order.largest_micro_tokens, d), sizeof(float)));
    p->fit_bytes = plus(times(times(d, d), 4 * sizeof(float) + 2 * sizeof(double)), /* sums, the map twice; the solver's squares */
                        times(times((uint64_t)s->pipeline.tokens, d), 4 * sizeof(float)));
}

static int check_limit(const struct zl_train_options *o, const struct zl_sweep_plan *p, uint64_t cached, struct zl_error *err)
{
    const uint64_t all = plus(plus(p->hidden_bytes, p->states_bytes), cached);
    if (!o->spill_limit || all <= o->spill_limit)
        return 0;
    return zl_fail(err, ZL_EUSAGE,
                   "--spill-limit of %.1f MiB is too little: adapters, optimizer and readouts take %.1f MiB and the hidden states of %s %.1f MiB",
                   (double)o->spill_limit / 1048576, (double)plus(p->states_bytes, cached) / 1048576,
                   p->n_maps ? "a step, or of the readouts' fit," : "a step", (double)p->hidden_bytes / 1048576);
}

int zl_sweep_plan(const struct zl_setup *s, const struct zl_train_options *o, struct zl_sweep_plan *p, struct zl_error *err)
{
    const struct zl_model *m = &s->corpus.model;
    const uint64_t tokens = (uint64_t)s->pipeline.tokens;
    *p = (struct zl_sweep_plan){.states_bytes = states_bytes(s), .largest = zl_sweep_record(s, o, tokens)};
    for (uint32_t k = 0; k < s->partition.n; k++) {
        const struct zl_cut *c = &s->partition.cut[k];
        const struct zl_block_plan *b = &s->plan.block[k];
        const bool last = k + 1 == s->partition.n;
        const uint64_t head = last ? m->head.bytes : 0, embed = k == 0 && !s->n_subset ? m->embed.bytes : 0;
        p->resident_bytes = larger(p->resident_bytes, zl_model_layer_bytes(m, c->first, c->n_own + c->n_shadow) + larger(head, embed));
        p->state_bytes = larger(p->state_bytes, b->state_bytes);
        p->activation_bytes = larger(p->activation_bytes, plus(b->activation_bytes, b->scratch_bytes));
        p->layers = c->n_own + c->n_shadow > p->layers ? c->n_own + c->n_shadow : p->layers;
        p->n_maps += c->map;
    }
    int rc = p->n_maps ? forward_bytes(s, p->layers, &p->activation_bytes, err) : 0;
    if (rc)
        return rc;
    p->activation_bytes = plus(p->activation_bytes, 64);
    p->map_bytes = p->n_maps ? map_bytes(s) : 0;
    p->head_bytes = zl_sweep_rows_bytes(s);
    for (uint64_t done = 0; done < s->order.n_steps;) {
        const uint64_t n = zl_sweep_window(s, o, done);
        const struct zl_step *first = &s->order.steps[done], *end = &s->order.steps[done + n - 1];
        count_records(s, o, s->order.micro + first->first_micro, end->first_micro + end->n_micro - first->first_micro, p);
        p->window = larger(p->window, n);
        done += n;
    }
    for (uint64_t at = 0; at < s->eval_order.n_micro;) {
        const uint64_t n = zl_sweep_eval_window(s, o, at);
        count_records(s, o, s->eval_order.micro + at, n, p);
        at += n;
    }
    if (p->n_maps)
        count_fit(s, p);
    const struct zl_spill_request hidden = {.bytes = p->hidden_bytes, .largest = p->largest, .records = p->records};
    p->buffer_bytes = plus(zl_spill_memory(&hidden), times(times(tokens, m->config.d), sizeof(float)));
    const uint64_t training = plus(plus(p->state_bytes, p->map_bytes), plus(p->head_bytes, p->resident_bytes));
    p->total_bytes = plus(plus(p->activation_bytes, p->buffer_bytes), larger(training, larger(p->fit_bytes, p->n_maps ? p->resident_bytes : 0)));
    return check_limit(o, p, zl_frozen_file_bytes(s, o), err);
}
