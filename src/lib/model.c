/* A model as the caller holds it. */
#include <stdlib.h>

#include "lib/lib.h"

#define DEFAULT_POSITIONS 4096
#define MOST_POSITIONS    (UINT64_C(1) << 22)

int zerolock_open(const char *path, const char *adapter, uint64_t positions, struct zerolock_model **out, struct zerolock_error *err)
{
    struct zl_error e = {0};
    struct zerolock_model *m = NULL;
    int rc = 0;
    *out = NULL;
    if (positions > MOST_POSITIONS)
        rc = zl_fail(&e, ZL_EUSAGE, "%llu positions are asked for, but %llu are the most", (unsigned long long)positions,
                     (unsigned long long)MOST_POSITIONS);
    if (!rc && !(m = calloc(1, sizeof *m)))
        rc = zl_fail(&e, ZL_EMEMORY, "out of memory");
    if (!rc)
        rc = zl_loaded_open(&m->loaded, path, adapter, positions ? positions : DEFAULT_POSITIONS, &e);
    if (rc)
        free(m);
    else
        *out = m;
    return zl_lib_finish(rc, &e, err);
}

void zerolock_close(struct zerolock_model *m)
{
    if (!m)
        return;
    zl_loaded_close(&m->loaded);
    free(m);
}
