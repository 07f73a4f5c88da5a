/*
 * The course of a run: what its driver feeds into the pipeline, one thing after the other, from the evaluation of the base model to the end.
 * A function of the setup, the options and the micro-batches that are left out; its position is a few numbers, which a checkpoint keeps.
 * A cut behind a step is possible wherever the course says ZL_FEED_BORDER, one of a halted pipeline anywhere.
 */
#ifndef ZL_TRAIN_COURSE_H
#define ZL_TRAIN_COURSE_H

#include "train/setup.h"

enum zl_feed {
    ZL_FEED_TRAIN,  /* micro-batch `micro` of step `step` */
    ZL_FEED_NOTHING,/* all micro-batches of the step are left out: it is whole as it is */
    ZL_FEED_DRAIN,
    ZL_FEED_EVAL,   /* held-out micro-batch `micro`, behind step `step` */
    ZL_FEED_BORDER, /* step `step` has been fed, and what comes behind it */
    ZL_FEED_END
};

struct zl_place { /* where the course is: what it gives next */
    uint64_t step; /* from 0: the evaluation of the base model */
    uint32_t phase;
    uint32_t reserved;
    uint64_t next; /* of the phase's things */
};

/* Micro-batches that are left out because of their numbers, ascending. */
#define ZL_LEFT_OUT_MOST 64
struct zl_left_out {
    uint64_t micro[ZL_LEFT_OUT_MOST];
    uint32_t n;
};

struct zl_course {
    const struct zl_setup *s;
    uint64_t eval_every;
    struct zl_left_out left_out;
    struct zl_place at;
    uint64_t inspect; /* a step whose gradients are looked at micro-batch by micro-batch; 0: none */
};

struct zl_feed_item {
    enum zl_feed what;
    uint64_t step, micro;
    bool last_of_step, inspect;
    float weight; /* of a summed loss: 1 / labelled tokens of the step's micro-batches that are not left out */
};

void zl_course_begin(struct zl_course *c, const struct zl_setup *s, uint64_t eval_every);

/* What comes next, and past it. */
struct zl_feed_item zl_course_next(struct zl_course *c);

/* Index of the first micro-batch that has not been given. */
uint64_t zl_course_micro(const struct zl_course *c);

bool zl_left_out_has(const struct zl_left_out *l, uint64_t micro);
/* false: there is no room for more. */
bool zl_left_out_add(struct zl_left_out *l, uint64_t micro);

/* Of the micro-batches of a step that are not left out: how many, and their tokens and labelled tokens. */
struct zl_step_size {
    uint64_t n_micro, n_tokens, n_trained;
};
struct zl_step_size zl_course_size(const struct zl_course *c, uint64_t step);

#endif
