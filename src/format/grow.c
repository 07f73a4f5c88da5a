/*
 * Growing arrays: see grow.h. Not an allocator and not a reservation: others may take the memory
 * in between, but no single size from a file or an option can exhaust the machine. Called by the
 * dataset, the lines and the order of training.
 */
#include "format/grow.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/number.h"
#include "base/type.h"

#define UNASKED ((uint64_t)16 << 20) /* bytes that are taken without asking */

int zl_array_check(uint64_t count, size_t size, const char *what, struct zl_error *err)
{
    uint64_t bytes, available;
    if (!zl_mul_u64(count, size, &bytes) || bytes > SIZE_MAX / 2)
        return zl_fail(err, ZL_EMEMORY, "no memory for %" PRIu64 " more %s", count, what);
    if (bytes <= UNASKED || bytes <= (available = zl_memory_available()))
        return 0;
    char need[ZL_NUMBER_TEXT], there[ZL_NUMBER_TEXT];
    zl_number_bytes(need, bytes);
    zl_number_bytes(there, available);
    return zl_fail(err, ZL_EMEMORY, "no memory for %" PRIu64 " more %s: they take %s, %s are free",
                   count, what, need, there);
}

int zl_array_grow(void **p, uint64_t need, uint64_t *capacity, size_t size, const char *what,
                  struct zl_error *err)
{
    if (need <= *capacity)
        return 0;
    uint64_t want = *capacity > UINT64_MAX / 2 ? need : *capacity * 2;
    want = want < need ? need : want < 256 ? 256 : want;
    if (zl_array_check(want - *capacity, size, what, NULL)) { /* twice is too much: just enough */
        uint64_t spare = need / 16;
        want = need > UINT64_MAX - spare ? need : need + spare;
        int rc = zl_array_check(want - *capacity, size, what, err);
        if (rc)
            return rc;
    }
    uint64_t bytes;
    void *q =
        zl_mul_u64(want, size, &bytes) && bytes <= SIZE_MAX / 2 ? realloc(*p, (size_t)bytes) : NULL;
    if (!q)
        return zl_fail(err, ZL_EMEMORY, "no memory for %" PRIu64 " %s", want, what);
    *p = q;
    *capacity = want;
    return 0;
}
