/*
 * Whether a step's numbers can be believed, judged on whole steps in order, so that the verdict depends on the numbers and never on timing. A
 * bad step names the micro-batch that is to blame, or asks for a closer look: the step again, with the gradients' norm after each of its
 * micro-batches. The driver then goes back to a checkpoint from before it and leaves the micro-batch out.
 */
#ifndef ZL_TRAIN_HEALTH_H
#define ZL_TRAIN_HEALTH_H

#include "train/course.h"
#include "train/ledger.h"

#define ZL_HEALTH_MOST   3   /* micro-batches that are left out in ZL_HEALTH_WITHIN steps before the run gives up */
#define ZL_HEALTH_WITHIN 100

/* Running mean and variance, exponentially forgetting. */
struct zl_running {
    double mean, variance;
    uint64_t n;
};

struct zl_vitals { /* behind some step */
    uint64_t step;
    struct zl_running loss, norm;
};

#define ZL_VITALS_KEPT 4096 /* more than steps can be under way */

struct zl_health {
    double most_deviations; /* a loss or norm beyond so many is a spike; 0: only what is not finite counts */
    struct zl_vitals now;
    struct zl_vitals *kept; /* [ZL_VITALS_KEPT] of the last steps, for checkpoints that were cut behind them; NULL without spikes */
};

enum zl_verdict { ZL_HEALTH_GOOD, ZL_HEALTH_INSPECT, ZL_HEALTH_LEAVE_OUT, ZL_HEALTH_GIVE_UP };

struct zl_trouble {
    enum zl_verdict what;
    uint64_t step, micro; /* micro: to be left out, or the first one of the step */
    char why[128];        /* "its loss is not finite" */
};

int zl_health_open(struct zl_health *h, double most_deviations, struct zl_error *err);
void zl_health_close(struct zl_health *h);

/* Judge a whole step; a good one is learnt from. */
struct zl_trouble zl_health_judge(struct zl_health *h, const struct zl_step_record *r, const struct zl_course *c);

/* What was known behind a step, and going on from it. */
struct zl_vitals zl_health_behind(const struct zl_health *h, uint64_t step);
void zl_health_resume(struct zl_health *h, const struct zl_vitals *v);

#endif
