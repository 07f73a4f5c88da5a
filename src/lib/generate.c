/* Generation with an open model. */
#include <assert.h>

#include "cmd/commands.h"
#include "lib/lib.h"

static_assert((int)ZEROLOCK_END_MODEL == (int)ZL_GENERATE_EOS && (int)ZEROLOCK_END_STOP == (int)ZL_GENERATE_STOP &&
                  (int)ZEROLOCK_END_LENGTH == (int)ZL_GENERATE_LENGTH && (int)ZEROLOCK_END_CALLER == (int)ZL_GENERATE_REFUSED,
              "one set of ends");

struct caller {
    int (*text)(void *context, const char *piece, size_t n);
    void *context;
};

static bool emit(void *context, const char *piece, size_t n)
{
    const struct caller *c = context;
    return c->text(c->context, piece, n) == 0;
}

int zerolock_generate(const struct zerolock_model *m, const char *prompt, const struct zerolock_option *pairs,
                      int (*text)(void *context, const char *piece, size_t n), void *context, struct zerolock_generation *out,
                      struct zerolock_error *err)
{
    struct caller caller = {text, context};
    const char *const operands[] = {m->loaded.model.path, prompt};
    struct zl_generate_options o;
    struct zl_generate_result r = {0};
    struct zl_memory memory = {0};
    struct zl_error e = {0};
    int rc = zl_lib_options(&zl_generate_command, operands, 2, pairs, &o, &memory, &e);
    if (!rc) {
        zl_generate_options_settle(&o);
        o.loaded = &m->loaded;
        o.hooks = NULL;
        rc = zl_generate_run(&o, emit, &caller, &r, &e);
    }
    if (out)
        *out = (struct zerolock_generation){r.prompt_tokens, r.new_tokens, r.prompt_seconds, r.new_seconds, (enum zerolock_end)r.end};
    zl_memory_free(&memory);
    return zl_lib_finish(rc, &e, err);
}
