/*
 * The cut of a model into stages: which layers each stage owns, how far it looks ahead, which readout stands behind that.
 */
#ifndef ZL_PIPE_PARTITION_H
#define ZL_PIPE_PARTITION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define ZL_STAGES_MAX 64

enum zl_readout_kind { ZL_READOUT_LENS, ZL_READOUT_RIDGE, ZL_READOUT_SHADOW };

struct zl_cut {
    uint32_t first, n_own, n_shadow;
    uint32_t lead; /* own layers at the front that do not train */
    bool frozen; /* forward only */
    bool map;    /* a ridge map stands between the landing layer and the final norm */
};

struct zl_partition {
    uint32_t layers, n;
    struct zl_cut cut[ZL_STAGES_MAX];
};

struct zl_partition_request {
    uint32_t layers, stages;
    enum zl_readout_kind readout;
    uint32_t look_ahead;    /* shadow only; 0: zl_partition_look_ahead() */
    const uint64_t *bounds; /* first layer of each stage (bounds[0] == 0), or NULL */
    bool equal;             /* equal blocks, floor(k L / K), whatever the readout */
    double tail;            /* what stands behind the last layer (norm, head, loss) costs as much as so many layers; without look-ahead
                               the last stage gets that many fewer */
    uint32_t lighter;       /* with local losses: the last stage has so many layers fewer than another stage and its look-ahead, as its head takes
                               the memory of so many; at least 1 */
    double front;           /* a layer of a stage that is not the last costs as much as so many of the last one (0: 1), since its
                               forward is made twice */
    uint32_t still;         /* layers at the front that do not train: a stage of such only is frozen; without a local loss it gets more layers */
    uint32_t last;          /* layers of the last stage, whose gradient is exact; the others share the rest equally. 0: by the other rules */
    const uint64_t *freeze; /* indices of frozen stages */
    uint32_t n_freeze;
};

/* Of a model of so many layers where none is given: two fifths of them, at least 1. With a map that trains that closes as much of the gap to
 * backpropagation as half of them with a map that stays as it was fitted (README, Measured). */
uint32_t zl_partition_look_ahead(uint32_t layers);

/* Without bounds: with a look-ahead of j layers stage k begins at floor(k (L - j) / K) (each has at least 1) and the last gets the rest, so
 * that layers computed (own and look-ahead) are balanced and the last block, whose gradient is exact, is the largest; without look-ahead equal blocks.
 * Look-ahead that reaches the last layer needs no map. ZL_EUSAGE with the sentence when the request does not fit the model. */
int zl_partition_make(const struct zl_partition_request *r, struct zl_partition *p, struct zl_error *err);

#endif
