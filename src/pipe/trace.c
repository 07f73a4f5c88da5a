/* The buffers of a trace: see trace.h. */
#include "pipe/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

const char *const zl_trace_names[ZL_TRACE_KINDS] = {
    [ZL_TRACE_FORWARD] = "forward",         [ZL_TRACE_LOCAL_LOSS] = "local loss",
    [ZL_TRACE_BACKWARD] = "backward",       [ZL_TRACE_UPDATE] = "update",
    [ZL_TRACE_REPLAY] = "replay",           [ZL_TRACE_EVALUATE] = "evaluate",
    [ZL_TRACE_WAIT_INPUT] = "wait for input", [ZL_TRACE_WAIT_SPACE] = "wait for space",
    [ZL_TRACE_CHECKPOINT] = "checkpoint",   [ZL_TRACE_SPILL_READ] = "spill read",
    [ZL_TRACE_SPILL_WRITE] = "spill write", [ZL_TRACE_RING_FILL] = "ring fill",
    [ZL_TRACE_ACTIVATION_BYTES] = "live activation bytes",
};

int zl_trace_open(struct zl_trace *t, uint32_t lanes, uint32_t events, struct zl_error *err)
{
    *t = (struct zl_trace){.lane = calloc(lanes, sizeof *t->lane), .origin_ns = zl_clock_ns()};
    if (!t->lane)
        return zl_fail(err, ZL_EMEMORY, "out of memory for the trace");
    for (t->n_lanes = 0; t->n_lanes < lanes; t->n_lanes++) {
        struct zl_trace_lane *l = &t->lane[t->n_lanes];
        l->event = malloc((size_t)events * sizeof *l->event);
        if (!l->event) {
            zl_trace_close(t);
            return zl_fail(err, ZL_EMEMORY, "out of memory for a trace of %u times %u events", lanes, events);
        }
        memset(l->event, 0xff, (size_t)events * sizeof *l->event); /* the pages are there before the run: not calloc, which only promises */
        l->capacity = events;
        snprintf(l->name, sizeof l->name, "worker %u", t->n_lanes);
    }
    return 0;
}

void zl_trace_close(struct zl_trace *t)
{
    for (uint32_t i = 0; i < t->n_lanes; i++)
        free(t->lane[i].event);
    free(t->lane);
    *t = (struct zl_trace){0};
}
