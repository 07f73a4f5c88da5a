/*
 * The floating-point operations that a step of plain backpropagation needs, however it is computed (a multiply-add counts two; recomputing,
 * norms, activations and softmax count nothing). For a token, over the linear layers of the model, [out][in] each, with adapters of rank r:
 *
 *     layers forward         2 out in                          their input's gradient  2 out in
 *     adapters forward       2 r (in + out)                    backward                4 r (in + out)
 *     attention forward      4 heads head_dim pairs            backward                8 heads head_dim pairs
 *     head, labelled token   2 d vocab                         backward                2 d vocab
 *
 * pairs = n (n + 1) / 2 of a sequence of n. The gradient of the first layer's q, k, v to the embedding is not needed.
 */
#ifndef ZL_BENCH_FLOPS_H
#define ZL_BENCH_FLOPS_H

#include "kernel/profile.h"
#include "model/lora.h"

struct zl_work_done {
    uint64_t tokens, labelled, pairs;
};

/* By part, where our kernels do it: adapters that ride in a layer's product are with it. */
void zl_flops(const struct zl_config *c, const struct zl_lora_spec *lora, const struct zl_work_done *w, double flops[ZL_PARTS]);

#endif
