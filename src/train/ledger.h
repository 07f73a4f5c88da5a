/*
 * The ledger of a running pipeline: collects the stages' reports of a step or of an evaluation, which arrive at different times, and
 * gives them out whole and in order. Pure bookkeeping: no threads, no files.
 *
 * A checkpoint's marker passes the stages at different times too. Its cut through the reports is what each stage had reported before
 * its marker: a run that goes on from the checkpoint gets all other reports again.
 */
#ifndef ZL_TRAIN_LEDGER_H
#define ZL_TRAIN_LEDGER_H

#include "base/error.h"
#include "pipe/packet.h"
#include "pipe/partition.h"

struct zl_step_record {
    uint64_t step;
    uint32_t stages_done;
    double loss_sum[ZL_STAGES_MAX];
    uint64_t n[ZL_STAGES_MAX];
    double grad_norm[ZL_STAGES_MAX];
    bool skipped[ZL_STAGES_MAX]; /* its gradient was zero or not finite: no update */
    bool updated[ZL_STAGES_MAX]; /* an update was made; neither: the stage trains nothing */
    bool done[ZL_STAGES_MAX];    /* the stage has reported all of the step */
    uint32_t n_micro[ZL_STAGES_MAX]; /* micro-batches that it has reported */
    double busy_seconds[ZL_STAGES_MAX];
    uint64_t bad; /* 1 + the first micro-batch that gave a loss, or where the step was looked at closely a gradient, that is not finite; 0: none */
    double worst, steepest;           /* the largest mean loss of a micro-batch in the last stage; the largest rise of a norm, where it was looked at */
    uint64_t worst_micro, steepest_micro;
    double norm[ZL_STAGES_MAX];       /* the last that was looked at */
    char unmoved[96];
};

struct zl_eval_record {
    uint64_t step; /* after which the evaluation was made */
    double loss_sum;
    uint64_t n, correct, micro_done;
};

/* What a stage had counted when a marker passed it: see struct zl_stage_state. */
struct zl_stage_count {
    uint64_t forwarded, finished, updates;
};

struct zl_ledger_cut {
    bool open;          /* begun, and some stage's marker is still on its way */
    uint64_t generation;
    uint64_t step;      /* that it stands behind */
    uint64_t whole;     /* steps up to this one were whole at the cut */
    uint32_t marked;    /* stages whose marker has come back */
    bool has[ZL_STAGES_MAX];
    struct zl_stage_count count[ZL_STAGES_MAX];
    struct zl_step_record *open_step; /* steps that were begun and not whole at the cut, in order, as far as they had been reported */
    uint32_t n;
};

struct zl_ledger {
    uint32_t stages;
    uint64_t eval_micro;         /* micro-batches of one evaluation */
    struct zl_step_record *open; /* steps begun and not whole, in order, a ring */
    uint32_t capacity, head, n_open;
    struct zl_eval_record eval;
    uint64_t whole;              /* the last step that was given out */
    struct zl_ledger_cut cut;
};

/* in_flight: the most steps that can be begun and not whole at one time. */
int zl_ledger_open(struct zl_ledger *l, uint32_t stages, uint64_t eval_micro, uint32_t in_flight, struct zl_error *err);
void zl_ledger_close(struct zl_ledger *l);

/* ZL_NEWS_CUT: the cut that was begun is complete in l->cut. */
enum zl_ledger_news { ZL_NEWS_NONE, ZL_NEWS_EVAL, ZL_NEWS_CUT };

/* Book a report. NEWS_EVAL: *eval is whole now. */
enum zl_ledger_news zl_ledger_book(struct zl_ledger *l, const struct zl_report *r, struct zl_eval_record *eval);

/* The next step in order, if it is whole. Ask after each report, and after zl_ledger_nothing. */
bool zl_ledger_next(struct zl_ledger *l, struct zl_step_record *step);

/* A step of which nothing is fed: whole as it is. */
void zl_ledger_nothing(struct zl_ledger *l, uint64_t step);

/* A marker is being sent behind `step`. One at a time: not while l->cut.open. */
void zl_ledger_cut_begin(struct zl_ledger *l, uint64_t generation, uint64_t step);
/* It will not come back: the pipeline is being stopped. */
void zl_ledger_cut_off(struct zl_ledger *l);

/* Take up a step that was begun before a checkpoint, as it had been reported then; in order, before any report. */
int zl_ledger_resume(struct zl_ledger *l, const struct zl_step_record *r, struct zl_error *err);

/* The i-th step that is begun and not whole. */
const struct zl_step_record *zl_ledger_begun(const struct zl_ledger *l, uint32_t i);

#endif
