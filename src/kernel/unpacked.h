/* Products whose weights go through no panel: of few rows, and in 8-bit integers. Internal to this layer. */
#ifndef ZL_KERNEL_UNPACKED_H
#define ZL_KERNEL_UNPACKED_H

#include "kernel/gemm.h"

/* Compute C and as many leading terms as lie so, and leave in g what is still to be added to C; false, and g as it was, where none does.
 * The team's scratch is used. */
bool zl_gemm_unpacked(const struct zl_team *team, struct zl_gemm *g);

#endif
