/*
 * The readouts' maps in the run's folder: readouts.safetensors, so that a run that goes on need not fit them again. A checkpoint's text holds
 * their hash; where the file is missing or another, they are fitted anew and must give the same bits.
 */
#ifndef ZL_TRAIN_MAPS_H
#define ZL_TRAIN_MAPS_H

#include "train/readouts.h"

#define ZL_MAPS_FILE "readouts.safetensors"

/* XXH3-128 of all maps as 32 digits; empty without any. */
void zl_maps_hash(const struct zl_readouts *r, uint32_t stages, int64_t d, char text[33]);

/* Write them, if there are any. */
int zl_maps_write(const char *path, const struct zl_readouts *r, uint32_t stages, int64_t d, struct zl_error *err);

/* Read those that the partition asks for; what is not there or has another hash is ZL_EINPUT and leaves *r empty. */
int zl_maps_read(const char *path, const struct zl_partition *p, int64_t d, const char *hash, struct zl_readouts *r, struct zl_error *err);

#endif
