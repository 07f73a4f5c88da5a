/* What is fed next: see course.h. */
#include "train/course.h"

#include <string.h>

enum phase { TRAIN, DRAIN, EVAL, BORDER, PHASES };

void zl_course_begin(struct zl_course *c, const struct zl_setup *s, uint64_t eval_every)
{
    *c = (struct zl_course){.s = s, .eval_every = eval_every};
}

bool zl_left_out_has(const struct zl_left_out *l, uint64_t micro)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->micro[i] == micro)
            return true;
    return false;
}

bool zl_left_out_add(struct zl_left_out *l, uint64_t micro)
{
    uint32_t i = 0;
    if (zl_left_out_has(l, micro))
        return true;
    if (l->n == ZL_LEFT_OUT_MOST)
        return false;
    while (i < l->n && l->micro[i] < micro)
        i++;
    memmove(&l->micro[i + 1], &l->micro[i], (l->n - i) * sizeof l->micro[0]);
    l->micro[i] = micro;
    l->n++;
    return true;
}

struct zl_step_size zl_course_size(const struct zl_course *c, uint64_t step)
{
    const struct zl_data_order *o = &c->s->order;
    const struct zl_step *s = &o->steps[step - 1];
    struct zl_step_size size = {s->n_micro, s->n_tokens, s->n_trained};
    for (uint32_t i = 0; i < c->left_out.n; i++) {
        const uint64_t m = c->left_out.micro[i];
        if (m < s->first_micro || m - s->first_micro >= s->n_micro)
            continue;
        size.n_micro--;
        size.n_tokens -= o->micro[m].n_tokens;
        size.n_trained -= o->micro[m].n_trained;
    }
    return size;
}

uint64_t zl_course_micro(const struct zl_course *c)
{
    const struct zl_data_order *o = &c->s->order;
    if (c->at.step == 0)
        return 0;
    if (c->at.step > o->n_steps)
        return o->n_micro;
    const struct zl_step *s = &o->steps[c->at.step - 1];
    return s->first_micro + (c->at.phase == TRAIN ? c->at.next : s->n_micro);
}

/* How many things a phase of the step has. */
static uint64_t length(const struct zl_course *c)
{
    const uint64_t step = c->at.step, steps = c->s->order.n_steps;
    const bool last = step == steps;
    switch ((enum phase)c->at.phase) {
    case TRAIN:
        return step ? c->s->order.steps[step - 1].n_micro : 0;
    case DRAIN:
        return last; /* the last evaluation is that of the adapter that is written */
    case EVAL:
        return step == 0 || last || (c->eval_every && step % c->eval_every == 0) ? c->s->eval_order.n_micro : 0;
    case BORDER:
        return 1;
    case PHASES:
        break;
    }
    return 0;
}

static struct zl_feed_item train(const struct zl_course *c, uint64_t micro)
{
    const struct zl_step *s = &c->s->order.steps[c->at.step - 1];
    const struct zl_step_size size = zl_course_size(c, c->at.step);
    struct zl_feed_item item = {.what = ZL_FEED_TRAIN, .step = c->at.step, .micro = micro, .inspect = c->at.step == c->inspect};
    item.weight = size.n_trained ? (float)(1.0 / (double)size.n_trained) : 0;
    item.last_of_step = true;
    for (uint64_t m = micro + 1; m < s->first_micro + s->n_micro && item.last_of_step; m++)
        item.last_of_step = zl_left_out_has(&c->left_out, m);
    return item;
}

struct zl_feed_item zl_course_next(struct zl_course *c)
{
    struct zl_place *at = &c->at;
    while (at->step <= c->s->order.n_steps) {
        if (at->next == length(c)) {
            const bool over = at->phase + 1 == PHASES;
            at->phase = over ? 0 : at->phase + 1;
            at->step += over;
            at->next = 0;
            continue;
        }
        const uint64_t i = at->next++;
        switch ((enum phase)at->phase) {
        case TRAIN: {
            const struct zl_step *s = &c->s->order.steps[at->step - 1];
            if (zl_course_size(c, at->step).n_micro == 0) {
                at->next = s->n_micro;
                return (struct zl_feed_item){.what = ZL_FEED_NOTHING, .step = at->step};
            }
            if (!zl_left_out_has(&c->left_out, s->first_micro + i))
                return train(c, s->first_micro + i);
            break;
        }
        case DRAIN:
            return (struct zl_feed_item){.what = ZL_FEED_DRAIN, .step = at->step};
        case EVAL:
            return (struct zl_feed_item){.what = ZL_FEED_EVAL, .step = at->step, .micro = i};
        case BORDER:
            return (struct zl_feed_item){.what = ZL_FEED_BORDER, .step = at->step};
        case PHASES:
            break;
        }
    }
    return (struct zl_feed_item){.what = ZL_FEED_END};
}
