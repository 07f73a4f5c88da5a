/* Random weights in stored form: every type that we compute with, values of about 0.02 either way, as a trained model's are. */
#ifndef ZL_BENCH_BLOCKS_H
#define ZL_BENCH_BLOCKS_H

#include <stdint.h>

#include "base/type.h"

/* Fill n blocks of `type` at dst. *state is the generator's: any start, the same weights from the same one. */
void zl_blocks_random(enum zl_type type, void *dst, uint64_t n, uint64_t *state);

/* By the name in zl_type_info; false: none of ours. */
bool zl_type_find(const char *name, enum zl_type *type);

#endif
