/*
 * Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
 * A number is a pure function of (key, counter); there is no state to save, so a position in a run is just a number.
 * Streams are told apart by the high counter words: see enum zl_stream.
 */
#ifndef ZL_BASE_RNG_H
#define ZL_BASE_RNG_H

#include <stdint.h>

enum zl_stream { /* who draws: counter word 3 */
    ZL_STREAM_SHUFFLE = 1,
    ZL_STREAM_SPLIT,
    ZL_STREAM_INIT, /* adapter initialisation; counter words 1, 2 = tensor, layer */
    ZL_STREAM_SAMPLE,
    ZL_STREAM_TEST
};

/* Four words for (key, counter). */
void zl_philox(uint64_t key, const uint32_t counter[4], uint32_t out[4]);

/* One 64-bit word for (key, stream, a, i): counter = {low i, high i, a, stream}. */
uint64_t zl_random_u64(uint64_t key, enum zl_stream stream, uint32_t a, uint64_t i);

/* Uniform in [0, 1), 24 bits, exactly representable. */
float zl_random_unit(uint64_t key, enum zl_stream stream, uint32_t a, uint64_t i);

/* Standard normal (Box-Muller in double, rounded to float). Bit-equal on one machine, to an ulp between C libraries. */
float zl_random_normal(uint64_t key, enum zl_stream stream, uint32_t a, uint64_t i);

/* The i-th element of a pseudo-random permutation of 0..n-1, chosen by (key, stream, a): a Feistel network over the next power
 * of four with cycle walking; O(1), no state. i < n. */
uint64_t zl_random_permute(uint64_t key, enum zl_stream stream, uint32_t a, uint64_t n, uint64_t i);

#endif
