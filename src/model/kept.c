/* Activations as bfloat16: see kept.h. */
#include "model/kept.h"

#include "kernel/ops.h"

/* The parts of a layer's activations by their widths, so that taking, rounding and widening are one loop each. */
enum { QKV, AO, MID, GATE_UP, XA, PARTS = XA + ZL_GROUPS };

static uint64_t width(const struct zl_config *c, const struct zl_lora_layer *l, int part)
{
    const uint64_t q = (uint64_t)c->heads * c->head_dim, kv = (uint64_t)c->kv_heads * c->head_dim;
    switch (part) {
    case QKV:
        return q + 2 * kv;
    case AO:
        return q;
    case MID:
        return c->d;
    case GATE_UP:
        return 2 * (uint64_t)c->ffn;
    default:
        return l->group_r[part - XA];
    }
}

static uint16_t **half(struct zl_kept *k, int part)
{
    uint16_t **const at[XA] = {&k->qkv, &k->ao, &k->mid, &k->gate_up};
    return part < XA ? at[part] : &k->xa[part - XA];
}

static float *whole(const struct zl_acts *a, int part)
{
    float *const at[XA] = {a->qkv, a->ao, a->mid, a->gate_up};
    return part < XA ? at[part] : a->xa[part - XA];
}

/* As zl_acts_share keeps them. */
static bool is_kept(int part, enum zl_recompute recompute)
{
    if (part == XA + ZL_G_DOWN)
        return true;
    return part == GATE_UP ? recompute == ZL_RECOMPUTE_NONE : recompute != ZL_RECOMPUTE_FULL;
}

static uint16_t *halves(struct zl_arena *a, uint64_t n)
{
    return zl_arena_take(a, n * sizeof(uint16_t));
}

void zl_kept_take(struct zl_arena *a, struct zl_kept *k, const struct zl_config *c, const struct zl_lora_layer *l, int64_t t,
                  enum zl_recompute recompute, bool y)
{
    *k = (struct zl_kept){0};
    for (int part = 0; part < PARTS; part++)
        if (is_kept(part, recompute))
            *half(k, part) = halves(a, (uint64_t)t * width(c, l, part));
    if (y)
        k->y = halves(a, (uint64_t)t * c->d);
}

void zl_kept_take_output(struct zl_arena *a, struct zl_kept *k, const struct zl_config *c, int64_t t)
{
    *k = (struct zl_kept){.y = t ? halves(a, (uint64_t)t * c->d) : NULL};
}

void zl_kept_put(const struct zl_team *team, const struct zl_kept *k, const struct zl_config *c, const struct zl_lora_layer *l, int64_t t,
                 const struct zl_acts *acts)
{
    struct zl_kept to = *k;
    for (int part = 0; part < PARTS; part++)
        if (*half(&to, part))
            zl_narrow(team, t * (int64_t)width(c, l, part), whole(acts, part), *half(&to, part));
    if (k->y)
        zl_narrow(team, t * (int64_t)c->d, acts->y, k->y);
}

void zl_kept_get(const struct zl_team *team, const struct zl_kept *k, const struct zl_config *c, const struct zl_lora_layer *l, int64_t t,
                 struct zl_acts *acts)
{
    struct zl_kept from = *k;
    for (int part = 0; part < PARTS; part++)
        if (*half(&from, part))
            zl_widen(team, t * (int64_t)width(c, l, part), *half(&from, part), whole(acts, part));
}

void zl_kept_output(const struct zl_team *team, const struct zl_kept *k, const struct zl_config *c, int64_t t, float *y)
{
    zl_widen(team, t * (int64_t)c->d, k->y, y);
}
