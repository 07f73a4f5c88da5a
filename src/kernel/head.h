/*
 * The output head and cross-entropy, fused: only labelled rows, the vocabulary walked in chunks with a running maximum, as
 * in flash attention, so that neither rows x vocabulary logits nor their gradients ever exist:
 *     loss[i] = logsumexp_v(h_i . E_v) - h_i . E_target(i)
 *     dh_i    = weight * (sum_v softmax_v E_v - E_target(i))       (softmax * E is accumulated chunk by chunk and rescaled)
 */
#ifndef ZL_KERNEL_HEAD_H
#define ZL_KERNEL_HEAD_H

#include <stdint.h>

#include "base/type.h"
#include "kernel/team.h"

struct zl_head {
    enum zl_type type;
    const void *weight;   /* [vocab][d], stored type */
    int64_t vocab, d;
    const int32_t *subset; /* optional: the n_subset token ids, ascending, that the softmax runs over; NULL = all */
    int64_t n_subset;
};

uint64_t zl_head_scratch_bytes(int threads, int64_t d, int64_t rows);

/* rows x d inputs h (contiguous; after the final norm), targets[rows]: token ids (with a subset: indices into it).
 * loss[rows] in nats. argmax[rows] (may be NULL): the likeliest candidate, same numbering as targets, lowest index on ties.
 * dh[rows][d] (may be NULL: evaluation) is overwritten with weight * gradient. Bits do not depend on the team, nor on
 * how the caller cuts rows into calls. dh may be h. */
void zl_head_loss(const struct zl_team *team, const struct zl_head *head, int64_t rows, const float *h,
                  const int32_t *targets, float weight, float *loss, int32_t *argmax, float *dh);

#endif
