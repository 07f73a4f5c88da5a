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

int zl_adapter_load(const char *path, const struct zl_model *m, struct zl_adapter *out, struct zl_error *err)
{
    char notes[512] = "", *inner = NULL;
    if (!holds(path, "adapter_config.json") && holds(path, "adapter"))
        path = inner = zl_path_join(path, "adapter");
    int rc = path ? zl_adapter_read(path, out, notes, sizeof notes, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (!rc && notes[0])
        zl_note("%s", notes);
    if (!rc && zl_adapter_check(out, &m->config, path, err)) {
        zl_adapter_free(out);
        rc = ZL_EINPUT;
    }
    free(inner);
    return rc;
}
