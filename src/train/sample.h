/* Choosing the next token from logits: greedy, or temperature and nucleus (top-p) sampling by a counter-based generator. */
#ifndef ZL_TRAIN_SAMPLE_H
#define ZL_TRAIN_SAMPLE_H

#include <stdint.h>

struct zl_candidate {
    float p;
    int32_t id;
};

/* logits [n]; work [n]. temperature 0: the likeliest (lowest id on ties). top_p in (0, 1]: the smallest set of likeliest tokens whose
 * probability reaches top_p. `position` makes the draw: the same (seed, position) gives the same number. */
int32_t zl_sample(const float *logits, uint32_t n, double temperature, double top_p, uint64_t seed, uint64_t position,
                  struct zl_candidate *work);

#endif
