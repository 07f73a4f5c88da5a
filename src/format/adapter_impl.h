/* What reading and writing an adapter share: its configuration and the matching of patterns. */
#ifndef ZL_FORMAT_ADAPTER_IMPL_H
#define ZL_FORMAT_ADAPTER_IMPL_H

#include <jansson.h>
#include <stdbool.h>

#include "format/adapter.h"

#define ZL_ADAPTER_PREFIX "base_model.model."

/* The settings of adapter_config.json that the mathematics of the adapter depends on. */
struct zl_adapter_settings {
    char *path; /* of the file, for errors */
    json_t *root;
    uint32_t r;
    double alpha;
    bool rslora, fan_in_fan_out;
    struct zl_patterns *ranks, *alphas;
};

int zl_adapter_settings_read(const char *dir, struct zl_adapter_settings *s, char *notes,
                             size_t notes_size, struct zl_error *err);
void zl_adapter_settings_free(struct zl_adapter_settings *s);

/* Rank and scale of one module; its name marks the pattern keys that it matched. */
int zl_adapter_settings_module(struct zl_adapter_settings *s, const char *module, uint32_t *r,
                               float *scale, struct zl_error *err);

/* A pattern key that no module matched is refused. */
int zl_adapter_settings_all_matched(const struct zl_adapter_settings *s, struct zl_error *err);

/* fan_in_fan_out says that the base weight is stored [in][out]. A and B do not depend on it, and
 * only the Conv1D modules of GPT-2 are stored so; with any other module the configuration and the
 * model contradict each other. */
bool zl_adapter_is_conv1d(const char *module);

#endif
