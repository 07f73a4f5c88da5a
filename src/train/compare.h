/*
 * Several training runs under equal conditions, one after the other, each a process of its own, so that its peak of memory is its own and
 * its end is nobody else's. What they measured comes from their folders and traces: metrics.jsonl, run.json, the trace. A run that fails
 * is a result too.
 */
#ifndef ZL_TRAIN_COMPARE_H
#define ZL_TRAIN_COMPARE_H

#include <jansson.h>

#include "base/values.h"
#include "train/hooks.h"
#include "train/trace_costs.h"

struct zl_contender {
    const char *name;          /* as the user wrote it: "zerolock:readout=ridge" */
    const char *const *argv;   /* arguments of train but for --output, --force and --trace, ended by NULL */
};

struct zl_compare_point { /* a held-out loss */
    uint64_t step, tokens;
    double seconds, loss; /* seconds of training before it, without evaluations */
};

/* What came of one. `problem` NULL: it ran to its end, and the rest is filled. */
struct zl_compared {
    char *problem;  /* a sentence */
    char *dir;      /* its folder */
    char *log;      /* what it said */
    json_t *about;  /* run.json */
    uint64_t steps, tokens;
    double seconds, tokens_per_second; /* of training */
    double loss;                       /* mean training loss of the last step */
    uint64_t peak_pss_bytes, peak_private_bytes;
    double idle, idle_after_fill;
    struct zl_trace_costs costs;
    struct zl_trace_event *event; /* [n_events]: the spans of the first steps, times since the first of them */
    uint64_t n_events, shown_ns;
    struct zl_compare_point *eval; /* [n_evals] */
    size_t n_evals;
};

struct zl_compare_request {
    const char *dir; /* there is a folder for each of the runs in it */
    const struct zl_contender *contender;
    size_t n;
    const struct zl_hooks *hooks;
};

/* Run them all; out [n] is zero at first. A run's failure is its own; the result is ZL_ESTOPPED when hooks say so (those not run have
 * that as their problem) and an error when nothing can be run at all. */
int zl_compare_run(const struct zl_compare_request *r, struct zl_compared *out, struct zl_error *err);
void zl_compare_free(struct zl_compared *out, size_t n);

/* Read what a finished run left: fills all but problem, dir and log (compare_read.c). */
int zl_compare_read(struct zl_compared *c, const char *trace, struct zl_error *err);

/* The results as an object, and as a page of HTML with pictures that needs nothing else. command: what was asked. */
json_t *zl_compare_json(const struct zl_compare_request *r, const struct zl_compared *c, const char *command);
int zl_compare_page(const struct zl_compare_request *r, const struct zl_compared *c, const char *command, const char *path,
                    struct zl_error *err);

#endif
