/* Training. One run at a time in a process: the segment's bookkeeping and the pinning of teams are the process's. */
#include <stdatomic.h>
#include <stdlib.h>

#include "cmd/commands.h"
#include "lib/lib.h"
#include "train/train.h"

static atomic_flag running = ATOMIC_FLAG_INIT;

struct caller {
    int (*progress)(void *context, const struct zerolock_progress *now);
    void *context;
    bool stop;
};

static void step(void *context, uint64_t step_done, uint64_t steps, double loss, double tokens_per_second)
{
    struct caller *c = context;
    const struct zerolock_progress now = {step_done, steps, loss, tokens_per_second};
    if (c->progress && !c->stop)
        c->stop = c->progress(c->context, &now) != 0;
}

static const char *stop(void *context)
{
    const struct caller *c = context;
    return c->stop ? "its caller" : NULL;
}

static int options(const char *model, const char *const *data, size_t n_data, const struct zerolock_option *pairs,
                   struct zl_train_options *o, struct zl_memory *memory, struct zl_error *err)
{
    const char **operands = zl_memory_keep(memory, malloc((n_data + 1) * sizeof *operands));
    if (!operands)
        return zl_fail(err, ZL_EMEMORY, "no memory for the options");
    operands[0] = model;
    for (size_t i = 0; i < n_data; i++)
        operands[i + 1] = data[i];
    int rc = zl_lib_options(&zl_train_command, operands, n_data + 1, pairs, o, memory, err);
    if (!rc)
        rc = zl_train_options_settle(o, memory, err);
    if (rc)
        return rc;
    o->quiet = true;
    o->configuration = zl_memory_keep(memory, zl_options_text(&zl_train_command, o));
    return o->configuration ? 0 : zl_fail(err, ZL_EMEMORY, "no memory for the options");
}

int zerolock_train(const char *model, const char *const *data, size_t n_data, const struct zerolock_option *pairs,
                   int (*progress)(void *context, const struct zerolock_progress *now), void *context, struct zerolock_error *err)
{
    struct caller caller = {.progress = progress, .context = context};
    const struct zl_hooks hooks = {.stop = stop, .step = step, .context = &caller};
    struct zl_train_options o;
    struct zl_memory memory = {0};
    struct zl_error e = {0};
    if (atomic_flag_test_and_set(&running))
        return zl_lib_finish(zl_fail(&e, ZL_EUSAGE, "another training run is going on in this process"), &e, err);
    int rc = options(model, data, n_data, pairs, &o, &memory, &e);
    if (!rc) {
        o.hooks = &hooks;
        rc = zl_train_run(&o, &e);
    }
    atomic_flag_clear(&running);
    zl_memory_free(&memory);
    return zl_lib_finish(rc, &e, err);
}
