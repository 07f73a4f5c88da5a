/*
 * The ledger of a running pipeline: collects the stages' reports of a step or of an evaluation, which arrive at different times, and
 * gives them out whole and in order. Pure bookkeeping: no threads, no files.
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
    double busy_seconds[ZL_STAGES_MAX];
    char unmoved[96];
};

struct zl_eval_record {
    uint64_t step; /* after which the evaluation was made */
    double loss_sum;
    uint64_t n, correct, micro_done;
};

struct zl_ledger {
    uint32_t stages;
    uint64_t eval_micro;         /* micro-batches of one evaluation */
    struct zl_step_record *open; /* steps begun and not whole, in order, a ring */
    uint32_t capacity, head, n_open;
    struct zl_eval_record eval;
};

/* in_flight: the most steps that can be begun and not whole at one time. */
int zl_ledger_open(struct zl_ledger *l, uint32_t stages, uint64_t eval_micro, uint32_t in_flight, struct zl_error *err);
void zl_ledger_close(struct zl_ledger *l);

enum zl_ledger_news { ZL_NEWS_NONE, ZL_NEWS_STEP, ZL_NEWS_EVAL };

/* Book a report. NEWS_STEP: *step is whole now (steps come out in order, at most one a report); NEWS_EVAL: *eval is. */
enum zl_ledger_news zl_ledger_book(struct zl_ledger *l, const struct zl_report *r, struct zl_step_record *step,
                                   struct zl_eval_record *eval);

#endif
