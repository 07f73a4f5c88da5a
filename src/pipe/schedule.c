/* The schedules of the field as a table: see schedule.h. */
#include "pipe/schedule.h"

#include <stddef.h>

static uint32_t none(uint32_t stage, uint32_t stages, uint32_t lag)
{
    (void)lag;
    (void)stage;
    (void)stages;
    return 0;
}

static uint32_t whole_step(uint32_t stage, uint32_t stages, uint32_t lag)
{
    (void)lag;
    (void)stage;
    (void)stages;
    return ZL_AHEAD_STEP;
}

/* For each stage behind this one: their forwards have to run before the first gradient comes back. */
static uint32_t stages_behind(uint32_t stage, uint32_t stages, uint32_t lag)
{
    return lag * (stages - 1 - stage);
}

const char *const zl_schedule_names[ZL_SCHEDULES + 1] = {
    [ZL_SCHEDULE_BP] = "bp",
    [ZL_SCHEDULE_ZEROLOCK] = "zerolock",
    [ZL_SCHEDULE_GPIPE] = "gpipe",
    [ZL_SCHEDULE_1F1B] = "1f1b",
    [ZL_SCHEDULE_PIPEDREAM] = "pipedream",
    [ZL_SCHEDULE_ASYNC] = "async",
    [ZL_SCHEDULE_SWEEP] = "sweep",
    NULL};

const struct zl_schedule zl_schedules[ZL_SCHEDULES] = {
    /* Backpropagation through all layers on one core group: the reference. */
    [ZL_SCHEDULE_BP] = {.single = true, .flush = true, .ahead = none},

    /* Block-local training (arXiv 2608.07974): output handed on before the update, a loss a stage, no gradient between stages. */
    [ZL_SCHEDULE_ZEROLOCK] = {.local = true, .ahead = none},

    /* All forwards of a step, then all backwards (Huang et al. 2019, GPipe). */
    [ZL_SCHEDULE_GPIPE] = {.flush = true, .ahead = whole_step},

    /* One forward, one backward, and empty at the end of a step (PipeDream-Flush; Narayanan et al. 2021). */
    [ZL_SCHEDULE_1F1B] = {.flush = true, .ahead = stages_behind, .lag = 1},

    /* The same without ever running empty; each micro-batch meets the same weights in its forward and its backward
     * (Narayanan et al. 2019, PipeDream). */
    [ZL_SCHEDULE_PIPEDREAM] = {.weights = ZL_WEIGHTS_STASHED, .ahead = stages_behind, .lag = 1},

    /* True gradients a fixed number of micro-batches late: PipeDream with slack between the stages, so that none waits for another where
     * micro-batches are not equal; or only inputs are stored, and the forward is replayed with the current weights. */
    [ZL_SCHEDULE_ASYNC] = {.weights = ZL_WEIGHTS_STASHED, .ahead = stages_behind, .lag = ZL_LAG_USUAL},

    /* Block-local training with one block in memory at a time. */
    [ZL_SCHEDULE_SWEEP] = {.local = true, .ahead = none},
};

struct zl_schedule zl_schedule_make(enum zl_schedule_kind kind, uint32_t lag, bool replay)
{
    struct zl_schedule s = zl_schedules[kind];
    if (kind == ZL_SCHEDULE_ASYNC) {
        s.lag = lag ? lag : ZL_LAG_USUAL;
        s.weights = replay ? ZL_WEIGHTS_REPLAYED : ZL_WEIGHTS_STASHED;
    }
    return s;
}

uint32_t zl_schedule_ahead(const struct zl_schedule *s, uint32_t stage, uint32_t stages)
{
    return s->ahead(stage, stages, s->lag);
}

uint32_t zl_schedule_in_flight(const struct zl_schedule *s, uint32_t stage, uint32_t stages, uint64_t micro)
{
    const uint64_t ahead = zl_schedule_ahead(s, stage, stages), most = ahead == ZL_AHEAD_STEP ? micro : ahead + 1;
    const uint64_t n = s->flush && most > micro ? micro : most;
    return n < 1 ? 1 : n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}
