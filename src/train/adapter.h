/* Finding and reading the adapter that a command names: a PEFT folder, or a run's folder that holds one in adapter/. */
#ifndef ZL_TRAIN_ADAPTER_H
#define ZL_TRAIN_ADAPTER_H

#include "format/adapter.h"
#include "model/model.h"

/* Read, check against the model, pass notes on to the log. */
int zl_adapter_load(const char *path, const struct zl_model *m, struct zl_adapter *out, struct zl_error *err);

/* The same without keeping it and without a word but the error. */
int zl_adapter_try(const char *path, const struct zl_model *m, struct zl_error *err);

#endif
