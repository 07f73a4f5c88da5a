/*
 * The order of training: which examples each step and micro-batch holds, for the whole run, before
 * it starts. Not a sampler with a state: position p of the stream is a function of (seed, p), so a
 * resumed run asks for position p again and gets the same example. Invariant: the plan depends on
 * the sizes of the examples and on the options, on nothing else. Called by the driver, the planner
 * (largest micro-batch) and the evaluation (shuffle off, one epoch).
 */
#include "format/dataset.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "format/grow.h"

uint64_t zl_data_order_example(const struct zl_data_order *o, uint64_t position)
{
    uint64_t epoch = position / o->n_examples, i = position % o->n_examples;
    if (!o->shuffle)
        return i;
    return zl_random_permute(o->seed, ZL_STREAM_SHUFFLE, (uint32_t)epoch, o->n_examples, i);
}

static int add_micro_batch(struct zl_data_order *o, uint64_t *capacity,
                           const struct zl_micro_batch *m, struct zl_error *err)
{
    int rc = zl_array_grow((void **)&o->micro, o->n_micro + 1, capacity, sizeof *o->micro,
                           "micro-batches of the plan", err);
    if (rc)
        return rc;
    o->micro[o->n_micro++] = *m;
    if (m->n_tokens > o->largest_micro_tokens)
        o->largest_micro_tokens = m->n_tokens;
    if (m->n > o->largest_micro_examples)
        o->largest_micro_examples = (uint32_t)m->n; /* at most its tokens */
    return 0;
}

/* How many positions the run has; UINT64_MAX when it goes by steps. */
static int positions(const struct zl_schedule_options *s, uint64_t n_examples, uint64_t *out,
                     struct zl_error *err)
{
    *out = UINT64_MAX;
    if (s->steps)
        return 0;
    double p = s->epochs * (double)n_examples;
    if (!(s->epochs > 0) || !(p < 0x1p53) || !(s->epochs < 0x1p32))
        return zl_fail(err, ZL_EUSAGE, "epochs must be above 0 and below 2^32 (or give steps)");
    uint64_t n = (uint64_t)llround(p);
    *out = n ? n : 1;
    return 0;
}

static int check(const struct zl_dataset *d, const struct zl_schedule_options *s,
                 struct zl_error *err)
{
    if (!d->n_examples)
        return zl_fail(err, ZL_EINPUT, "the data holds no examples");
    if (!s->batch_tokens || !s->micro_batch_tokens)
        return zl_fail(err, ZL_EUSAGE, "batch tokens and micro-batch tokens must be at least 1");
    if (s->batch_tokens > (uint64_t)1 << 40) /* a step that never fills would be planned for ever */
        return zl_fail(err, ZL_EUSAGE, "batch tokens must be at most 2^40, not %" PRIu64,
                       s->batch_tokens);
    if (s->micro_batch_tokens > INT32_MAX)
        return zl_fail(err, ZL_EUSAGE, "micro-batch tokens must be at most %d, not %" PRIu64,
                       INT32_MAX, s->micro_batch_tokens);
    return 0;
}

int zl_data_order_plan(const struct zl_dataset *d, const struct zl_schedule_options *s,
                       struct zl_data_order *out, struct zl_error *err)
{
    static const char plan[] = "steps of the plan";
    struct zl_data_order o = {.n_examples = d->n_examples, .seed = s->seed, .shuffle = s->shuffle};
    uint64_t steps_capacity = 0, micro_capacity = 0, end = 0, p = 0;
    memset(out, 0, sizeof *out);
    int rc = check(d, s, err);
    if (!rc)
        rc = positions(s, d->n_examples, &end, err);
    if (!rc) /* each step has a micro-batch: refuse what cannot fit before planning half of it */
        rc = zl_array_check(s->steps, sizeof *o.steps + sizeof *o.micro, plan, err);
    if (rc)
        return rc;

    while (s->steps ? o.n_steps < s->steps : p < end) {
        if ((rc = zl_array_grow((void **)&o.steps, o.n_steps + 1, &steps_capacity, sizeof *o.steps,
                                plan, err)))
            goto out;
        struct zl_step step = {.first_micro = o.n_micro};
        struct zl_micro_batch m = {.first = p};
        for (; p < end; p++) {
            const struct zl_example *e = &d->examples[zl_data_order_example(&o, p)];
            bool full = step.n_tokens && step.n_tokens + e->n > s->batch_tokens;
            if (m.n && (full || m.n_tokens + (uint64_t)e->n > s->micro_batch_tokens)) {
                if ((rc = add_micro_batch(&o, &micro_capacity, &m, err)))
                    goto out;
                m = (struct zl_micro_batch){.first = p};
            }
            if (full)
                break;
            m.n++;
            m.n_tokens += e->n;
            m.n_trained += e->n_trained;
            step.n_tokens += e->n;
            step.n_trained += e->n_trained;
        }
        if (m.n &&
            (rc = add_micro_batch(&o, &micro_capacity, &m, err))) /* the stream ended inside it */
            goto out;
        if (p / d->n_examples > UINT32_MAX) {
            rc = zl_fail(err, ZL_EUSAGE,
                         "%" PRIu64 " steps go through the data more than 2^32 times", s->steps);
            goto out;
        }
        step.n_micro = o.n_micro - step.first_micro;
        o.steps[o.n_steps++] = step;
    }
out:
    if (rc)
        zl_data_order_free(&o);
    else
        *out = o;
    return rc;
}

void zl_data_order_free(struct zl_data_order *o)
{
    free(o->steps);
    free(o->micro);
    memset(o, 0, sizeof *o);
}
