/* Linear systems with a symmetric positive definite matrix in double, for the ridge maps: one matrix, as many right sides as it has rows. */
#ifndef ZL_MODEL_SPD_H
#define ZL_MODEL_SPD_H

#include <stdbool.h>
#include <stdint.h>

/* r [d][d] becomes C^-1 r. Of c [d][d] the lower triangle is read, and all of it overwritten. work: zl_spd_work(d) doubles. False, with both
 * spoilt: c is not positive definite. The bits depend on nothing but c, r and d. */
bool zl_spd_solve(double *c, double *r, int64_t d, double *work);
uint64_t zl_spd_work(int64_t d);

#endif
