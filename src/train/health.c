/* Whether a step's numbers can be believed: see health.h. */
#include "train/health.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define FORGET  0.05 /* weight of the newest step: about 20 count */
#define LEARN   20   /* steps before a spike can be told */
#define ASSUMED 0.02 /* of the mean: a standard deviation is not believed to be less */

int zl_health_open(struct zl_health *h, double most_deviations, struct zl_error *err)
{
    *h = (struct zl_health){.most_deviations = most_deviations};
    if (most_deviations > 0 && !(h->kept = calloc(ZL_VITALS_KEPT, sizeof *h->kept)))
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    return 0;
}

void zl_health_close(struct zl_health *h)
{
    free(h->kept);
    *h = (struct zl_health){0};
}

static void learn(struct zl_running *r, double x)
{
    const double weight = (double)r->n < 1 / FORGET ? 1 / (double)(r->n + 1) : FORGET, away = x - r->mean;
    r->mean += weight * away;
    r->variance = (1 - weight) * (r->variance + weight * away * away);
    r->n++;
}

/* How many standard deviations above what was usual; 0 while that is not known. */
static double deviations(const struct zl_running *r, double x)
{
    if (r->n < LEARN)
        return 0;
    const double sd = sqrt(r->variance), least = ASSUMED * fabs(r->mean);
    return (x - r->mean) / (sd > least ? sd : least > 0 ? least : 1);
}

static uint64_t step_of(const struct zl_data_order *o, uint64_t micro)
{
    uint64_t low = 1, high = o->n_steps;
    while (low < high) {
        const uint64_t middle = low + (high - low + 1) / 2;
        if (o->steps[middle - 1].first_micro <= micro)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static uint32_t left_out_lately(const struct zl_course *c, uint64_t step)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < c->left_out.n; i++) {
        const uint64_t s = step_of(&c->s->order, c->left_out.micro[i]);
        n += s <= step && step - s < ZL_HEALTH_WITHIN;
    }
    return n;
}

/* The first or last micro-batch of a step that is not left out. */
static uint64_t fed(const struct zl_course *c, uint64_t step, bool last)
{
    const struct zl_step *s = &c->s->order.steps[step - 1];
    for (uint64_t i = 0; i < s->n_micro; i++) {
        const uint64_t micro = s->first_micro + (last ? s->n_micro - 1 - i : i);
        if (!zl_left_out_has(&c->left_out, micro))
            return micro;
    }
    return s->first_micro;
}

static struct zl_trouble blame(const struct zl_course *c, uint64_t step, uint64_t micro, const char *why)
{
    struct zl_trouble t = {.what = ZL_HEALTH_LEAVE_OUT, .step = step, .micro = micro};
    snprintf(t.why, sizeof t.why, "%s", why);
    if (left_out_lately(c, step) >= ZL_HEALTH_MOST || c->left_out.n == ZL_LEFT_OUT_MOST)
        t.what = ZL_HEALTH_GIVE_UP;
    return t;
}

/* Something in the step; which micro-batch it was shows a closer look. */
static struct zl_trouble look_closer(const struct zl_course *c, uint64_t step, uint64_t found, const char *why)
{
    if (c->inspect == step || zl_course_size(c, step).n_micro == 1)
        return blame(c, step, found, why);
    struct zl_trouble t = {.what = ZL_HEALTH_INSPECT, .step = step, .micro = c->s->order.steps[step - 1].first_micro};
    snprintf(t.why, sizeof t.why, "%s", why);
    return t;
}

struct zl_trouble zl_health_judge(struct zl_health *h, const struct zl_step_record *r, const struct zl_course *c)
{
    const uint32_t stages = c->s->partition.n, last = stages - 1;
    double squares = 0;
    if (r->bad)
        return blame(c, r->step, r->bad - 1, "its numbers are not finite");
    for (uint32_t k = 0; k < stages; k++)
        squares += r->grad_norm[k] * r->grad_norm[k];
    if (!isfinite(squares))
        return look_closer(c, r->step, fed(c, r->step, true), "its gradient is not finite");
    const double loss = r->n[last] ? r->loss_sum[last] / (double)r->n[last] : h->now.loss.mean, norm = sqrt(squares);
    if (h->most_deviations > 0 && r->n[last]) {
        char why[128];
        const double of_loss = deviations(&h->now.loss, loss), of_norm = deviations(&h->now.norm, norm);
        if (of_loss > h->most_deviations) {
            snprintf(why, sizeof why, "the loss of its step is %.1f deviations above the mean", of_loss);
            return blame(c, r->step, r->worst_micro, why);
        }
        if (of_norm > h->most_deviations) {
            snprintf(why, sizeof why, "the gradient of its step is %.1f deviations above the mean", of_norm);
            return look_closer(c, r->step, r->steepest > 0 ? r->steepest_micro : fed(c, r->step, true), why);
        }
        learn(&h->now.loss, loss);
        learn(&h->now.norm, norm);
    }
    h->now.step = r->step;
    if (h->kept)
        h->kept[r->step % ZL_VITALS_KEPT] = h->now;
    return (struct zl_trouble){.what = ZL_HEALTH_GOOD};
}

struct zl_vitals zl_health_behind(const struct zl_health *h, uint64_t step)
{
    const struct zl_vitals *v = h->kept ? &h->kept[step % ZL_VITALS_KEPT] : &h->now;
    return v->step == step ? *v : h->now;
}

void zl_health_resume(struct zl_health *h, const struct zl_vitals *v)
{
    h->now = *v;
    if (h->kept)
        h->kept[v->step % ZL_VITALS_KEPT] = *v;
}
