/* The base model forward: see base_pass.h. */
#include "model/base_pass.h"

#include <stdlib.h>
#include <string.h>

#include "kernel/dequant.h"

int zl_base_pass_open(struct zl_base_pass *p, const struct zl_model *m, int threads, enum zl_compute compute, int64_t tokens, int64_t longest,
                      const uint32_t *landing, uint32_t n, struct zl_error *err)
{
    const size_t rows = (size_t)tokens * m->config.d;
    const struct zl_block_spec spec = {.first = 0, .n_own = m->config.layers, .tokens = tokens, .longest = longest, .compute = compute};
    *p = (struct zl_base_pass){.n = n, .x = calloc(rows, sizeof(float))};
    p->landing = calloc(n + 1, sizeof *p->landing);
    p->saved = calloc(n + 1, sizeof *p->saved);
    bool there = p->x && p->landing && p->saved;
    for (uint32_t k = 0; there && k < n; k++) {
        p->landing[k] = landing[k];
        there = (p->saved[k] = calloc(rows, sizeof(float))) != NULL;
    }
    return there ? zl_block_open(&p->block, m, &spec, threads, err) : zl_fail(err, ZL_EMEMORY, "out of memory for a pass of the base model");
}

void zl_base_pass_close(struct zl_base_pass *p)
{
    zl_block_close(&p->block);
    for (uint32_t k = 0; p->saved && k < p->n; k++)
        free(p->saved[k]);
    free(p->saved);
    free(p->landing);
    free(p->x);
    *p = (struct zl_base_pass){0};
}

const float *zl_base_pass_run(struct zl_base_pass *p, const int32_t *ids, const struct zl_tokens *tok)
{
    struct zl_block *b = &p->block;
    const struct zl_model *m = b->model;
    const int64_t d = m->config.d;
    zl_dequant_rows(m->embed.type, m->embed.data, d, ids, tok->t, p->x);
    const float *h = p->x;
    for (uint32_t i = 0; i < m->config.layers; i++) {
        b->acts[i].x = h;
        zl_layer_forward(&b->team, m, i, &b->own.layer[i], b->w, tok, &b->acts[i], &b->work, NULL);
        h = b->acts[i].y;
        for (uint32_t k = 0; k < p->n; k++)
            if (p->landing[k] == i + 1)
                memcpy(p->saved[k], h, (size_t)(tok->t * d) * sizeof(float));
    }
    return h;
}
