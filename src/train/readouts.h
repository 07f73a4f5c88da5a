/* The readouts of a partition: fits the ridge maps that its cuts ask for on the run's own data, before the first step. */
#ifndef ZL_TRAIN_READOUTS_H
#define ZL_TRAIN_READOUTS_H

#include "model/readout.h"
#include "pipe/partition.h"
#include "train/corpus.h"

struct zl_readouts {
    struct zl_map map[ZL_STAGES_MAX];
    const float *a[ZL_STAGES_MAX], *b[ZL_STAGES_MAX]; /* by stage; NULL where the cut has no map */
    uint64_t tokens;                                  /* that the fit has seen */
};

/* The first `tokens` tokens of the order as samples to fit on (0: 8 d, what the recipe asks for). */
struct zl_samples {
    struct zl_sample *sample;
    size_t n;
    uint64_t tokens; /* in all of them */
    unsigned char *memory;
};
int zl_samples_make(const struct zl_corpus *c, const struct zl_data_order *o, uint64_t tokens, struct zl_samples *out, struct zl_error *err);
void zl_samples_free(struct zl_samples *s);

/* Fit on the first `tokens` tokens of the order (0: 8 d; a probe of speed takes fewer). */
int zl_readouts_fit(const struct zl_corpus *c, const struct zl_data_order *o, const struct zl_partition *p, int threads,
                    uint64_t tokens, struct zl_readouts *out, struct zl_error *err);
void zl_readouts_free(struct zl_readouts *r);

#endif
