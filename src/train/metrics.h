/* The objects of metrics.jsonl: one a step, one an evaluation. Field names are documented in zerolock-train(1). */
#ifndef ZL_TRAIN_METRICS_H
#define ZL_TRAIN_METRICS_H

#include <jansson.h>

#include "train/ledger.h"

struct zl_moment { /* what is known at a step beside the stages' reports */
    double lr, seconds, tokens_per_second, stall_seconds, checkpoint_seconds;
    uint64_t tokens, tokens_total, trained_tokens;
    uint64_t peak_pss_bytes, peak_private_bytes;
    double epoch;
};

/* New references. A mean over nothing and a number that is not finite are null. */
json_t *zl_metrics_step(const struct zl_step_record *r, uint32_t stages, const struct zl_moment *now);
json_t *zl_metrics_eval(const struct zl_eval_record *r, double seconds);

#endif
