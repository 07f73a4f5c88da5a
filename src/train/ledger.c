/* Bookkeeping of reports: see ledger.h. Stages finish steps in order, so the oldest open step is whole before any younger one. */
#include "train/ledger.h"

#include <stdlib.h>
#include <string.h>

int zl_ledger_open(struct zl_ledger *l, uint32_t stages, uint64_t eval_micro, uint32_t in_flight, struct zl_error *err)
{
    *l = (struct zl_ledger){.stages = stages, .eval_micro = eval_micro, .capacity = in_flight};
    l->open = calloc(in_flight, sizeof *l->open);
    return l->open ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
}

void zl_ledger_close(struct zl_ledger *l)
{
    free(l->open);
    l->open = NULL;
}

static struct zl_step_record *find(struct zl_ledger *l, uint64_t step)
{
    for (uint32_t i = 0; i < l->n_open; i++) {
        struct zl_step_record *r = &l->open[(l->head + i) % l->capacity];
        if (r->step == step)
            return r;
    }
    if (l->n_open == l->capacity)
        abort(); /* more steps in flight than the rings can hold: our own bug */
    struct zl_step_record *r = &l->open[(l->head + l->n_open++) % l->capacity];
    *r = (struct zl_step_record){.step = step};
    return r;
}

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

enum zl_ledger_news zl_ledger_book(struct zl_ledger *l, const struct zl_report *r, struct zl_step_record *step,
                                   struct zl_eval_record *eval)
{
    if (r->kind == ZL_EVAL)
        return book_eval(l, r, eval);
    struct zl_step_record *s = find(l, r->step);
    s->loss_sum[r->stage] += r->loss_sum;
    s->n[r->stage] += r->n;
    s->busy_seconds[r->stage] += (double)r->busy_ns * 1e-9;
    if (r->unmoved[0])
        memcpy(s->unmoved, r->unmoved, sizeof s->unmoved);
    if (!r->last_of_step)
        return ZL_NEWS_NONE;
    s->grad_norm[r->stage] = r->grad_norm;
    s->skipped[r->stage] = r->skipped;
    if (++s->stages_done < l->stages)
        return ZL_NEWS_NONE;
    *step = *s;
    l->head = (l->head + 1) % l->capacity;
    l->n_open--;
    return ZL_NEWS_STEP;
}
