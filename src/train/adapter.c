/* Finding and reading an adapter: see adapter.h. */
#include "train/adapter.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "model/lora.h"

static bool holds(const char *dir, const char *name)
{
    char *path = zl_path_join(dir, name);
    bool found = path && access(path, F_OK) == 0;
    free(path);
    return found;
}

static int find(const char *path, const struct zl_model *m, struct zl_adapter *out, char *notes, size_t n, struct zl_error *err)
{
    char *inner = NULL;
    if (!holds(path, "adapter_config.json") && holds(path, "adapter"))
        path = inner = zl_path_join(path, "adapter");
    int rc = path ? zl_adapter_read(path, out, notes, n, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc && zl_adapter_check(out, &m->config, path, err)) {
        zl_adapter_free(out);
        rc = ZL_EINPUT;
    }
    free(inner);
    return rc;
}

int zl_adapter_load(const char *path, const struct zl_model *m, struct zl_adapter *out, struct zl_error *err)
{
    char notes[512] = "";
    int rc = find(path, m, out, notes, sizeof notes, err);
    if (!rc && notes[0])
        zl_note("%s", notes);
    return rc;
}

int zl_adapter_try(const char *path, const struct zl_model *m, struct zl_error *err)
{
    struct zl_adapter a;
    int rc = find(path, m, &a, NULL, 0, err);
    if (!rc)
        zl_adapter_free(&a);
    return rc;
}
