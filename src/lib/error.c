/* Errors across the border: the same codes and sentence as inside (base/error.h), in the caller's own struct. */
#include <assert.h>
#include <string.h>

#include "base/error.h"
#include "lib/lib.h"

static_assert((int)ZEROLOCK_EUSAGE == (int)ZL_EUSAGE && (int)ZEROLOCK_EINPUT == (int)ZL_EINPUT &&
                  (int)ZEROLOCK_ESYSTEM == (int)ZL_ESYSTEM && (int)ZEROLOCK_EMEMORY == (int)ZL_EMEMORY &&
                  (int)ZEROLOCK_ESTOPPED == (int)ZL_ESTOPPED,
              "one set of codes");
static_assert(sizeof ((struct zerolock_error *)0)->text == sizeof ((struct zl_error *)0)->text, "no sentence is cut");

int zl_lib_finish(int rc, const struct zl_error *from, struct zerolock_error *to)
{
    if (!to)
        return rc;
    to->code = rc < 0 ? rc : 0;
    to->text[0] = '\0';
    if (rc < 0)
        memcpy(to->text, from->text, sizeof to->text);
    return rc;
}
