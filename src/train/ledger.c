/* Bookkeeping of reports: see ledger.h. Stages finish steps in order; only a step of which nothing is fed is whole before older ones are. */
#include "train/ledger.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int zl_ledger_open(struct zl_ledger *l, uint32_t stages, uint64_t eval_micro, uint32_t in_flight, struct zl_error *err)
{
    *l = (struct zl_ledger){.stages = stages, .eval_micro = eval_micro, .capacity = in_flight};
    l->open = calloc(in_flight, sizeof *l->open);
    l->cut.open_step = calloc(2 * (size_t)in_flight, sizeof *l->cut.open_step); /* those given out since the cut was begun are there too */
    return l->open && l->cut.open_step ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
}

void zl_ledger_close(struct zl_ledger *l)
{
    free(l->open);
    free(l->cut.open_step);
    *l = (struct zl_ledger){0};
}

static struct zl_step_record *at(const struct zl_ledger *l, uint32_t i)
{
    return &l->open[(l->head + i) % l->capacity];
}

const struct zl_step_record *zl_ledger_begun(const struct zl_ledger *l, uint32_t i)
{
    return at(l, i);
}

static struct zl_step_record *find(struct zl_ledger *l, uint64_t step)
{
    for (uint32_t i = 0; i < l->n_open; i++)
        if (at(l, i)->step == step)
            return at(l, i);
    if (l->n_open == l->capacity)
        abort(); /* more steps in flight than the rings can hold: our own bug */
    uint32_t i = l->n_open++;
    for (; i > 0 && at(l, i - 1)->step > step; i--)
        *at(l, i) = *at(l, i - 1);
    *at(l, i) = (struct zl_step_record){.step = step};
    return at(l, i);
}

int zl_ledger_resume(struct zl_ledger *l, const struct zl_step_record *r, struct zl_error *err)
{
    if (l->n_open == l->capacity || (l->n_open && at(l, l->n_open - 1)->step >= r->step))
        return zl_fail(err, ZL_EINPUT, "the checkpoint's list of steps that were begun cannot be");
    *find(l, r->step) = *r;
    return 0;
}

/* ---- the cut of a checkpoint --------------------------------------------------------------------- */

void zl_ledger_cut_begin(struct zl_ledger *l, uint64_t generation, uint64_t step)
{
    l->cut = (struct zl_ledger_cut){.open = true, .generation = generation, .step = step, .whole = l->whole, .open_step = l->cut.open_step};
}

void zl_ledger_cut_off(struct zl_ledger *l)
{
    l->cut.open = false;
}

/* Stage k's part of a record, as it is now, becomes part of the cut. */
static void keep(struct zl_ledger_cut *c, const struct zl_step_record *from, uint32_t k)
{
    uint32_t i = 0;
    if (from->step > c->step)
        return; /* it is fed behind the marker: only what other stages have done behind theirs */
    while (i < c->n && c->open_step[i].step != from->step)
        i++;
    struct zl_step_record *to = &c->open_step[i];
    if (i == c->n) {
        *to = (struct zl_step_record){.step = from->step};
        c->n++;
    }
    to->loss_sum[k] = from->loss_sum[k];
    to->n[k] = from->n[k];
    to->grad_norm[k] = from->grad_norm[k];
    to->skipped[k] = from->skipped[k];
    to->updated[k] = from->updated[k];
    to->done[k] = from->done[k];
    to->n_micro[k] = from->n_micro[k];
    to->busy_seconds[k] = from->busy_seconds[k];
    to->stages_done += from->done[k];
    if (from->bad && (!to->bad || from->bad < to->bad))
        to->bad = from->bad;
    if (from->unmoved[0])
        memcpy(to->unmoved, from->unmoved, sizeof to->unmoved);
}

/* A record leaves: what it holds of stages whose marker is still on its way was all reported before it. */
static void keep_leaving(struct zl_ledger *l, const struct zl_step_record *r)
{
    for (uint32_t k = 0; l->cut.open && k < l->stages; k++)
        if (!l->cut.has[k])
            keep(&l->cut, r, k);
}

static int by_step(const void *a, const void *b)
{
    const struct zl_step_record *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

static enum zl_ledger_news book_mark(struct zl_ledger *l, const struct zl_report *r)
{
    struct zl_ledger_cut *c = &l->cut;
    if (!c->open || c->generation != r->generation || c->has[r->stage])
        return ZL_NEWS_NONE;
    for (uint32_t i = 0; i < l->n_open; i++)
        keep(c, at(l, i), r->stage);
    c->has[r->stage] = true;
    c->count[r->stage] = (struct zl_stage_count){r->forwarded, r->finished, r->updates};
    if (++c->marked < l->stages)
        return ZL_NEWS_NONE;
    qsort(c->open_step, c->n, sizeof *c->open_step, by_step);
    uint32_t whole = 0; /* before the markers: these have been given out */
    while (whole < c->n && c->open_step[whole].stages_done == l->stages)
        c->whole = c->open_step[whole].step > c->whole ? c->open_step[whole].step : c->whole, whole++;
    c->n -= whole;
    memmove(c->open_step, c->open_step + whole, c->n * sizeof *c->open_step);
    c->open = false;
    return ZL_NEWS_CUT;
}

/* ---- reports ------------------------------------------------------------------------------------- */

static enum zl_ledger_news book_eval(struct zl_ledger *l, const struct zl_report *r, struct zl_eval_record *eval)
{
    if (r->stage + 1 != l->stages)
        return ZL_NEWS_NONE;
    l->eval.step = r->step;
    l->eval.loss_sum += r->loss_sum;
    l->eval.n += r->n;
    l->eval.correct += r->correct;
    if (++l->eval.micro_done < l->eval_micro)
        return ZL_NEWS_NONE;
    *eval = l->eval;
    l->eval = (struct zl_eval_record){0};
    return ZL_NEWS_EVAL;
}

static void look_for_extremes(const struct zl_ledger *l, struct zl_step_record *s, const struct zl_report *r)
{
    const double loss = r->n ? r->loss_sum / (double)r->n : 0;
    if (r->stage + 1 == l->stages && loss > s->worst) {
        s->worst = loss;
        s->worst_micro = r->micro;
    }
    if (!isfinite(r->grad_norm) && !r->last_of_step && (!s->bad || r->micro + 1 < s->bad))
        s->bad = r->micro + 1;
    if (r->grad_norm - s->norm[r->stage] > s->steepest) {
        s->steepest = r->grad_norm - s->norm[r->stage];
        s->steepest_micro = r->micro;
    }
    s->norm[r->stage] = r->grad_norm;
}

enum zl_ledger_news zl_ledger_book(struct zl_ledger *l, const struct zl_report *r, struct zl_eval_record *eval)
{
    if (r->kind == ZL_MARK)
        return book_mark(l, r);
    if (r->kind == ZL_EVAL)
        return book_eval(l, r, eval);
    struct zl_step_record *s = find(l, r->step);
    s->loss_sum[r->stage] += r->loss_sum;
    s->n[r->stage] += r->n;
    s->n_micro[r->stage]++;
    s->busy_seconds[r->stage] += (double)r->busy_ns * 1e-9;
    if (!isfinite(r->loss_sum) && (!s->bad || r->micro + 1 < s->bad))
        s->bad = r->micro + 1;
    look_for_extremes(l, s, r);
    if (r->unmoved[0])
        memcpy(s->unmoved, r->unmoved, sizeof s->unmoved);
    if (!r->last_of_step)
        return ZL_NEWS_NONE;
    s->grad_norm[r->stage] = r->grad_norm;
    s->skipped[r->stage] = r->skipped;
    s->updated[r->stage] = r->updated;
    s->done[r->stage] = true;
    s->stages_done++;
    return ZL_NEWS_NONE;
}

void zl_ledger_nothing(struct zl_ledger *l, uint64_t step)
{
    struct zl_step_record *s = find(l, step);
    for (uint32_t k = 0; k < l->stages; k++)
        s->done[k] = true;
    s->stages_done = l->stages;
}

bool zl_ledger_next(struct zl_ledger *l, struct zl_step_record *step)
{
    if (!l->n_open || at(l, 0)->stages_done < l->stages)
        return false;
    *step = *at(l, 0);
    l->whole = step->step;
    keep_leaving(l, step);
    l->head = (l->head + 1) % l->capacity;
    l->n_open--;
    return true;
}
