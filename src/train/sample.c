/* Choosing the next token: see sample.h. */
#include "train/sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/rng.h"

static int by_probability(const void *x, const void *y)
{
    const struct zl_candidate *a = x, *b = y;
    if (a->p != b->p)
        return a->p < b->p ? 1 : -1;
    return a->id < b->id ? -1 : 1;
}

int32_t zl_sample(const float *logits, uint32_t n, double temperature, double top_p, uint64_t seed, uint64_t position,
                  struct zl_candidate *work)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    if (temperature <= 0)
        return (int32_t)best;
    double sum = 0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        double p = exp(((double)logits[i] - (double)logits[best]) / temperature);
        sum += p;
        if (p > 1e-9)
            work[kept++] = (struct zl_candidate){(float)p, (int32_t)i};
    }
    qsort(work, kept, sizeof *work, by_probability);
    double mass = 0;
    uint32_t in = 0;
    while (in < kept && mass < top_p * sum)
        mass += (double)work[in++].p;
    double draw = (double)zl_random_unit(seed, ZL_STREAM_SAMPLE, 0, position) * mass;
    for (uint32_t i = 0; i < in; i++) {
        draw -= (double)work[i].p;
        if (draw < 0)
            return work[i].id;
    }
    return work[in ? in - 1 : 0].id;
}
