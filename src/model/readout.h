/*
 * The ridge map of a light readout: the affine map z = A u + b from the hidden state at a landing layer to the one before the final
 * norm, fitted once on the base model by weighted ridge regression in closed form (about 8 d tokens, forward only):
 *     w_t = 1 / mean(y_t^2), normalised to sum 1; position 0 of each sequence left out;
 *     C = sum w (x - mx)(x - mx)',  R = sum w (x - mx)(r - mr)' with r = y - x;  lambda = 1e-2 tr(C) / d;
 *     A = I + ((C + lambda I)^-1 R)',  b = my - A mx.
 */
#ifndef ZL_MODEL_READOUT_H
#define ZL_MODEL_READOUT_H

#include "model/layer.h"

struct zl_sample { /* a micro-batch to fit on */
    const int32_t *ids; /* [tok.t] */
    struct zl_tokens tok;
};

struct zl_map {
    uint32_t landing; /* layers below the readout: 1 .. layers - 1 */
    float *a, *b;     /* [d][d], [d]; owned, malloc'd */
    double explained; /* weighted squared norm of r that the map explains, hidden units^2 */
};

/* Fit n maps (landing filled in by the caller) in one pass over the samples with a team of `threads` threads. tokens, longest: the
 * largest sample's. */
int zl_readout_fit(const struct zl_model *m, int threads, const struct zl_sample *samples, size_t n_samples, int64_t tokens,
                   int64_t longest, struct zl_map *maps, uint32_t n, struct zl_error *err);
void zl_map_free(struct zl_map *map);

/* The same for those who bring the hidden states themselves, one map at a time: the sums of a map, the working memory that adding to any
 * of them takes, and the map that solves them. x: hidden at the landing layer, y: before the final norm, [tok->t][d]. The same samples in
 * the same order give the same bits as zl_readout_fit. On failure the out parameter is still to be closed. */
struct zl_map_sums;
struct zl_map_work;
int zl_map_work_open(struct zl_map_work **out, const struct zl_team *team, int64_t d, int64_t tokens, struct zl_error *err);
void zl_map_work_close(struct zl_map_work *w);
int zl_map_sums_open(struct zl_map_sums **out, int64_t d, struct zl_error *err);
void zl_map_sums_add(struct zl_map_sums *s, struct zl_map_work *w, const struct zl_tokens *tok, const float *x, const float *y);
int zl_map_sums_solve(const struct zl_map_sums *s, int64_t d, struct zl_map *map, struct zl_error *err);
void zl_map_sums_close(struct zl_map_sums *s);

#endif
