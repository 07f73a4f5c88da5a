/*
 * What a run tells while it goes: each step and evaluation into metrics.jsonl, onto the progress bar and to the caller's hooks; and what
 * follows from it: a warning about adapters that do not learn, the end of a run whose numbers are lost. Every schedule's driver hands its
 * whole steps in, in order, and asks zl_journal_stopping between micro-batches. One thread.
 */
#ifndef ZL_TRAIN_JOURNAL_H
#define ZL_TRAIN_JOURNAL_H

#include "base/progress.h"
#include "store/run.h"
#include "train/ledger.h"
#include "train/course.h"

struct zl_tally { /* of the run so far, over all the processes that have worked on it */
    uint64_t steps_done, tokens_done, evaluations;
    double seconds, step_seconds; /* step_seconds of them have gone into the step under way */
    double first_eval, last_eval; /* NaN: none */
    uint64_t last_eval_step;
    uint64_t peak_pss, peak_private;
    uint32_t skipped_in_a_row;
};

struct zl_journal {
    const struct zl_train_options *o;
    const struct zl_setup *s;
    const struct zl_course *course; /* NULL: nothing is left out */
    struct zl_run *run;
    struct zl_progress progress;
    uint64_t opened_ns, start_ns, last_step_ns, last_pss_ns;
    bool under_way; /* something has been fed */
    double head_start; /* seconds of work that the training counts and that was done before its clock began */
    uint64_t since_ns; /* the end of the step or evaluation before the step under way */
    double together;   /* tokens a second of steps that were computed together; 0: each by itself */
    uint64_t tokens_done, peak_pss, peak_private;
    uint64_t steps_done, evaluations;
    bool admits;            /* the driver says nothing of what it feeds: whole steps */
    uint64_t tokens_before; /* of other processes */
    double checkpoint_seconds; /* that stages have spent handing in their state; set by the driver */
    double first_eval, last_eval, last_loss;
    uint64_t last_eval_step;
    uint32_t skipped_in_a_row;
    const char *stopped_by; /* NULL: nobody */
    struct zl_error *err;   /* the sentence of what went wrong first */
    int rc;
};

void zl_journal_open(struct zl_journal *j, const struct zl_train_options *o, const struct zl_setup *s, struct zl_run *run,
                     struct zl_error *err);

/* The micro-batch is being fed: said of the first one of a process. */
void zl_journal_feeds(struct zl_journal *j, uint64_t micro);
/* What is told about speed is about training: the clock begins with the evaluation of the base model, or by this call where there is none. */
void zl_journal_begin(struct zl_journal *j);
/* The steps that are handed in next were computed together: so many tokens since the last word. Their speed is that of them all. */
void zl_journal_together(struct zl_journal *j, uint64_t tokens);
/* How far the steps that are computed together are, in steps and tokens, for the progress bar. */
void zl_journal_progress(struct zl_journal *j, double steps, double tokens);
void zl_journal_step(struct zl_journal *j, const struct zl_step_record *r, double stall_seconds);
void zl_journal_eval(struct zl_journal *j, const struct zl_eval_record *r);

/* The run so far, and the same for one that goes on: before its first report. */
struct zl_tally zl_journal_tally(const struct zl_journal *j);
void zl_journal_resume(struct zl_journal *j, const struct zl_tally *t);
/* Tokens of the steps up to this one. */
uint64_t zl_journal_tokens(const struct zl_journal *j, uint64_t step);

/* The run cannot go on; the first code stays. */
void zl_journal_fail(struct zl_journal *j, int rc);

/* Stop feeding? After a failure, or when the caller wants it. */
bool zl_journal_stopping(struct zl_journal *j);

/* All that was begun is done: closes the progress bar, and says who stopped the run before its end. Returns rc. */
int zl_journal_finish(struct zl_journal *j);

/* Speed, memory and losses as notes. */
void zl_journal_say_result(const struct zl_journal *j);

#endif
