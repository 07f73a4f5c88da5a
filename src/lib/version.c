/* The library's version. */
#include "config.h"

#include "zerolock.h"

const char *zerolock_version(void)
{
    return PACKAGE_VERSION;
}
