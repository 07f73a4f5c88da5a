/* A model that is open with its tokenizer and, perhaps, an adapter: what generation and evaluation work on. */
#ifndef ZL_TRAIN_LOADED_H
#define ZL_TRAIN_LOADED_H

#include "format/adapter.h"
#include "format/tokenizer.h"
#include "model/model.h"

struct zl_loaded {
    struct zl_model model;
    struct zl_tokenizer *tokenizer;
    struct zl_adapter adapter;
    bool has_adapter;
};

/* Open the model at `path` for sequences of at most `positions` tokens, its tokenizer, and the adapter at `adapter` (NULL: none).
 * Read-only afterwards, so threads may share it. On failure nothing stays open. */
int zl_loaded_open(struct zl_loaded *l, const char *path, const char *adapter, uint64_t positions, struct zl_error *err);
/* Whether zl_loaded_open would find a model and an adapter that fits it, for those who have to wait for something before they can open them.
 * Says nothing but the error. */
int zl_loaded_try(const char *path, const char *adapter, struct zl_error *err);
void zl_loaded_close(struct zl_loaded *l);

/* The adapter, or NULL. */
static inline const struct zl_adapter *zl_loaded_adapter(const struct zl_loaded *l)
{
    return l->has_adapter ? &l->adapter : NULL;
}

#endif
