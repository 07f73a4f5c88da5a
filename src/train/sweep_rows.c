/*
 * The rows of the output head and of the embedding that a sweep's data uses, copied together: scattered over the file they would hold most of
 * its pages. See sweep_impl.h. Rows that only held-out data uses are read where they stand.
 */
#include <stdlib.h>
#include <string.h>

#include "kernel/dequant.h"
#include "train/sweep_impl.h"

static int copy_rows(const struct zl_setup *s, const struct zl_tensor *from, struct zl_tensor *to, struct zl_error *err)
{
    const uint64_t row = from->bytes / s->corpus.model.config.vocab;
    unsigned char *rows = malloc((size_t)(row * (uint64_t)s->n_subset));
    if (!rows)
        return zl_fail(err, ZL_EMEMORY, "out of memory for the rows of the head");
    for (int64_t i = 0; i < s->n_subset; i++)
        memcpy(rows + (uint64_t)i * row, (const unsigned char *)from->data + (uint64_t)s->subset[i] * row, row);
    zl_tensors_advise(from->data, from->bytes, ZL_ADVICE_DONE);
    *to = *from;
    to->data = rows;
    return 0;
}

static bool tied(const struct zl_model *m)
{
    return m->embed.data == m->head.data;
}

uint64_t zl_sweep_rows_bytes(const struct zl_setup *s)
{
    const struct zl_model *m = &s->corpus.model;
    const uint64_t row = m->head.bytes / m->config.vocab + (tied(m) ? 0 : m->embed.bytes / m->config.vocab);
    return (uint64_t)s->n_subset * row;
}

int zl_sweep_rows_copy(struct zl_sweep *w, struct zl_error *err)
{
    const struct zl_model *m = &w->s->corpus.model;
    if (!w->s->n_subset)
        return 0;
    int rc = copy_rows(w->s, &m->head, &w->local_head, err);
    if (!rc && tied(m))
        w->local_embed = w->local_head;
    else if (!rc)
        rc = copy_rows(w->s, &m->embed, &w->local_embed, err);
    return rc;
}

void zl_sweep_rows_free(struct zl_sweep *w)
{
    if (w->local_embed.data != w->local_head.data)
        free((void *)(uintptr_t)w->local_embed.data);
    free((void *)(uintptr_t)w->local_head.data);
}

void zl_sweep_embed(const struct zl_sweep *w, const int32_t *ids, int64_t tokens, float *x)
{
    const struct zl_model *m = &w->s->corpus.model;
    const int64_t d = m->config.d;
    if (!w->local_embed.data) {
        zl_dequant_rows(m->embed.type, m->embed.data, d, ids, tokens, x);
        return;
    }
    for (int64_t i = 0; i < tokens; i++) {
        const int32_t at = w->s->subset_index[ids[i]];
        zl_dequant_rows(m->embed.type, at < 0 ? m->embed.data : w->local_embed.data, d, at < 0 ? &ids[i] : &at, 1, x + i * d);
    }
}
