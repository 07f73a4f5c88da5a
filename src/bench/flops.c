/* Counting operations: see flops.h. */
#include "bench/flops.h"

#include <string.h>

static bool feeds_from_embedding(uint32_t layer, enum zl_role role)
{
    return layer == 0 && (role == ZL_W_Q || role == ZL_W_K || role == ZL_W_V);
}

void zl_flops(const struct zl_config *c, const struct zl_lora_spec *lora, const struct zl_work_done *w, double flops[ZL_PARTS])
{
    const double t = (double)w->tokens, width = (double)c->heads * c->head_dim * c->layers;
    memset(flops, 0, ZL_PARTS * sizeof *flops);
    for (uint32_t i = 0; i < c->layers; i++)
        for (enum zl_role role = 0; role < ZL_LINEARS; role++) {
            const double in = zl_linear_in(c, role), out = zl_linear_out(c, role);
            const double r = lora->targets >> role & 1 ? lora->rank : 0;
            flops[ZL_PART_FORWARD] += 2 * t * out * (in + r);                   /* y = W x + B (A x) */
            if (!feeds_from_embedding(i, role))
                flops[ZL_PART_BACKWARD] += 2 * t * in * (out + r);              /* dx = dy W + (dy B) A */
            flops[ZL_PART_LORA] += 2 * t * r * (in + out) + 2 * t * r * (in + out); /* A x, dy B; dA, dB */
        }
    flops[ZL_PART_ATTENTION] = 4 * width * (double)w->pairs;
    flops[ZL_PART_ATTENTION_BACKWARD] = 8 * width * (double)w->pairs;
    flops[ZL_PART_HEAD] = 4 * (double)w->labelled * c->d * c->vocab;
}
