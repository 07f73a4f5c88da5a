/* Evaluation of an open model. */
#include <stdlib.h>

#include "cmd/commands.h"
#include "lib/lib.h"

static int options(const struct zerolock_model *m, const char *const *data, size_t n_data, const struct zerolock_option *pairs,
                   struct zl_eval_options *o, struct zl_memory *memory, struct zl_error *err)
{
    const char **operands = zl_memory_keep(memory, malloc((n_data + 1) * sizeof *operands));
    if (!operands)
        return zl_fail(err, ZL_EMEMORY, "no memory for the options");
    operands[0] = m->loaded.model.path;
    for (size_t i = 0; i < n_data; i++)
        operands[i + 1] = data[i];
    int rc = zl_lib_options(&zl_eval_command, operands, n_data + 1, pairs, o, memory, err);
    if (rc)
        return rc;
    zl_eval_options_settle(o);
    if (!ZL_GIVEN(o, max_length) && o->max_length > m->loaded.model.positions)
        o->max_length = m->loaded.model.positions;
    o->loaded = &m->loaded;
    o->hooks = NULL;
    o->quiet = true;
    return 0;
}

int zerolock_eval(const struct zerolock_model *m, const char *const *data, size_t n_data, const struct zerolock_option *pairs,
                  struct zerolock_eval *out, struct zerolock_error *err)
{
    struct zl_eval_options o;
    struct zl_eval_result r = {0};
    struct zl_memory memory = {0};
    struct zl_error e = {0};
    int rc = options(m, data, n_data, pairs, &o, &memory, &e);
    if (!rc)
        rc = zl_eval_run(&o, &r, &e);
    *out = (struct zerolock_eval){r.loss, r.tokens, r.correct, r.examples, r.matched, r.compared, r.seconds};
    zl_memory_free(&memory);
    return zl_lib_finish(rc, &e, err);
}
