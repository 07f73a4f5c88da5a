/*
 * A stage: one thread, pinned with its team to a core group, that trains one block from one ring to the next (early forwarding:
 * the output is published before the local loss is computed and before any update). A stage consumes its inputs in order and touches
 * nothing else, so results do not depend on timing: a Kahn network.
 */
#ifndef ZL_PIPE_STAGE_H
#define ZL_PIPE_STAGE_H

#include <pthread.h>

#include "model/block.h"
#include "pipe/cores.h"
#include "pipe/packet.h"
#include "pipe/ring.h"

struct zl_stage {
    int index;
    bool last;
    struct zl_block block;
    struct zl_optimizer optimizer; /* lr comes with each packet */
    int64_t updates;               /* optimizer steps made */
    struct zl_ring *in, *out;      /* out NULL: the last stage */
    struct zl_ring *reports;       /* of struct zl_report, to the driver */
    struct zl_packet_layout in_layout, out_layout;
    struct zl_core_group group;
    bool pinned;
    float *embedded;               /* [tokens][d], stage 0 only */
    pthread_t thread;
    bool running;
};

/* Start the stage's thread. It ends when `in` is closed and drained (then closes `out` and `reports`) or aborted (then aborts them). */
int zl_stage_start(struct zl_stage *s, struct zl_error *err);
void zl_stage_join(struct zl_stage *s);

#endif
