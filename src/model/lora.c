/* Low-rank adapters of a run of layers: layout, initialisation, and the way from and to PEFT's modules. See lora.h. */
#include "model/lora.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

const enum zl_group zl_group_of[ZL_LINEARS] = {
    [ZL_W_Q] = ZL_G_QKV,        [ZL_W_K] = ZL_G_QKV,      [ZL_W_V] = ZL_G_QKV,     [ZL_W_O] = ZL_G_O,
    [ZL_W_GATE] = ZL_G_GATE_UP, [ZL_W_UP] = ZL_G_GATE_UP, [ZL_W_DOWN] = ZL_G_DOWN,
};

int zl_lora_targets(const char *text, uint32_t *bits, struct zl_error *err)
{
    static const struct {
        const char *name;
        uint32_t bits;
    } sets[] = {
        {"all", (1u << ZL_LINEARS) - 1},
        {"all-linear", (1u << ZL_LINEARS) - 1},
        {"attention", 1u << ZL_W_Q | 1u << ZL_W_K | 1u << ZL_W_V | 1u << ZL_W_O},
        {"mlp", 1u << ZL_W_GATE | 1u << ZL_W_UP | 1u << ZL_W_DOWN},
    };
    *bits = 0;
    for (const char *p = text; *p;) {
        size_t len = strcspn(p, ",");
        uint32_t bit = 0;
        for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
            if (strlen(sets[i].name) == len && memcmp(sets[i].name, p, len) == 0)
                bit = sets[i].bits;
        for (enum zl_role role = 0; role < ZL_LINEARS; role++)
            if (strlen(zl_linear_names[role]) == len && memcmp(zl_linear_names[role], p, len) == 0)
                bit = 1u << role;
        if (!bit)
            return zl_fail(err, ZL_EUSAGE,
                           "--targets: \"%.*s\" is not one of all, attention, mlp, q_proj, k_proj, v_proj, o_proj, "
                           "gate_proj, up_proj, down_proj",
                           (int)(len < 60 ? len : 60), p);
        *bits |= bit;
        p += len;
        if (*p == ',' && !*++p)
            return zl_fail(err, ZL_EUSAGE, "--targets: there is no name behind the last comma");
    }
    return *bits ? 0 : zl_fail(err, ZL_EUSAGE, "--targets is empty");
}

void zl_module_name(const struct zl_config *c, uint32_t layer, enum zl_role role, char *name, size_t size)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(name, size, c->arch->roles[role].hf, layer);
#pragma GCC diagnostic pop
    char *dot = strrchr(name, '.');
    if (dot)
        *dot = '\0';
}

/* Give every module with r > 0 its place in the flat vector. */
static void place(struct zl_lora *l, const struct zl_config *c)
{
    l->size = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        struct zl_lora_layer *layer = &l->layer[i];
        memset(layer->group_r, 0, sizeof layer->group_r);
        for (int g = 0; g < ZL_GROUPS; g++) {
            layer->group_a[g] = l->size;
            for (enum zl_role role = 0; role < ZL_LINEARS; role++) {
                struct zl_lora_module *m = &layer->module[role];
                if ((int)zl_group_of[role] != g)
                    continue;
                m->a = l->size;
                m->column = layer->group_r[g];
                layer->group_r[g] += m->r;
                l->size += (uint64_t)m->r * zl_linear_in(c, role);
            }
        }
        for (enum zl_role role = 0; role < ZL_LINEARS; role++) {
            layer->module[role].bt = l->size;
            l->size += (uint64_t)layer->module[role].r * zl_linear_out(c, role);
        }
        l->size = (l->size + 15) / 16 * 16;
    }
}

static int start(struct zl_lora *l, uint32_t first, uint32_t n, struct zl_error *err)
{
    *l = (struct zl_lora){.first = first, .n = n};
    l->layer = calloc(n ? n : 1, sizeof *l->layer);
    return l->layer ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
}

int zl_lora_layout(struct zl_lora *l, const struct zl_config *c, uint32_t first, uint32_t n, const struct zl_lora_spec *spec,
                   struct zl_error *err)
{
    if (start(l, first, n, err))
        return ZL_EMEMORY;
    for (uint32_t i = spec->first > first ? spec->first - first : 0; i < n; i++)
        for (enum zl_role role = 0; role < ZL_LINEARS; role++)
            if (spec->targets >> role & 1) {
                l->layer[i].module[role].r = spec->rank;
                l->layer[i].module[role].scale = spec->alpha / (float)spec->rank;
            }
    place(l, c);
    return 0;
}

static const struct zl_adapter_module *find(const struct zl_adapter *a, const char *name)
{
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->modules[i].name, name) == 0)
            return &a->modules[i];
    return NULL;
}

int zl_lora_layout_adapter(struct zl_lora *l, const struct zl_config *c, uint32_t first, uint32_t n,
                           const struct zl_adapter *a, struct zl_error *err)
{
    char name[160];
    if (start(l, first, n, err))
        return ZL_EMEMORY;
    for (uint32_t i = 0; i < n; i++)
        for (enum zl_role role = 0; role < ZL_LINEARS; role++) {
            zl_module_name(c, first + i, role, name, sizeof name);
            const struct zl_adapter_module *m = find(a, name);
            if (m) {
                l->layer[i].module[role].r = m->r;
                l->layer[i].module[role].scale = m->scale;
            }
        }
    place(l, c);
    return 0;
}

void zl_lora_free(struct zl_lora *l)
{
    free(l->layer);
    free(l->owned);
    *l = (struct zl_lora){0};
}

void zl_lora_init(struct zl_lora *l, const struct zl_config *c, const struct zl_lora_spec *spec, uint64_t seed, uint32_t tag)
{
    if (l->size == 0)
        return;
    memset(l->w, 0, l->size * sizeof(float));
    for (uint32_t i = 0; i < l->n; i++)
        for (enum zl_role role = 0; role < ZL_LINEARS; role++) {
            const struct zl_lora_module *m = &l->layer[i].module[role];
            uint64_t in = zl_linear_in(c, role), n = (uint64_t)m->r * in;
            uint32_t stream = (tag << 16 | (l->first + i)) * ZL_LINEARS + (uint32_t)role;
            float bound = 1.0f / sqrtf((float)in);
            for (uint64_t j = 0; j < n; j++)
                l->w[m->a + j] = spec->normal_init
                                     ? 0.01f * zl_random_normal(seed, ZL_STREAM_INIT, stream, j)
                                     : bound * (2.0f * zl_random_unit(seed, ZL_STREAM_INIT, stream, j) - 1.0f);
        }
}

uint32_t zl_adapter_first_layer(const struct zl_adapter *a, const struct zl_config *c, uint32_t from)
{
    char name[160];
    for (uint32_t i = from; i < c->layers; i++)
        for (enum zl_role role = 0; role < ZL_LINEARS; role++) {
            zl_module_name(c, i, role, name, sizeof name);
            if (find(a, name))
                return i;
        }
    return c->layers;
}

int zl_adapter_check(const struct zl_adapter *a, const struct zl_config *c, const char *where, struct zl_error *err)
{
    size_t known = 0;
    char name[160];
    for (uint32_t i = 0; i < c->layers; i++)
        for (enum zl_role role = 0; role < ZL_LINEARS; role++) {
            zl_module_name(c, i, role, name, sizeof name);
            const struct zl_adapter_module *m = find(a, name);
            if (!m)
                continue;
            known++;
            if (m->in != zl_linear_in(c, role) || m->out != zl_linear_out(c, role))
                return zl_fail(err, ZL_EINPUT, "%s: the adapter of %s is for a layer [%u][%u], the model's is [%u][%u]",
                               where, name, m->out, m->in, zl_linear_out(c, role), zl_linear_in(c, role));
        }
    for (size_t j = 0; known < a->n && j < a->n; j++) {
        bool ours = false;
        for (uint32_t i = 0; !ours && i < c->layers; i++)
            for (enum zl_role role = 0; !ours && role < ZL_LINEARS; role++) {
                zl_module_name(c, i, role, name, sizeof name);
                ours = strcmp(name, a->modules[j].name) == 0;
            }
        if (!ours)
            return zl_fail(err, ZL_EINPUT, "%s: the adapter has a module %s that this model has not or that cannot be adapted",
                           where, a->modules[j].name);
    }
    return 0;
}

void zl_lora_import(struct zl_lora *l, const struct zl_config *c, const struct zl_adapter *a)
{
    char name[160];
    for (uint32_t i = 0; i < l->n; i++)
        for (enum zl_role role = 0; role < ZL_LINEARS; role++) {
            const struct zl_lora_module *m = &l->layer[i].module[role];
            zl_module_name(c, l->first + i, role, name, sizeof name);
            const struct zl_adapter_module *from = m->r ? find(a, name) : NULL;
            if (!from)
                continue;
            uint32_t out = from->out;
            memcpy(l->w + m->a, from->a, (size_t)m->r * from->in * sizeof(float));
            for (uint32_t row = 0; row < out; row++)
                for (uint32_t k = 0; k < m->r; k++)
                    l->w[m->bt + (uint64_t)k * out + zl_linear_row(c, role, row)] = from->b[(uint64_t)row * m->r + k];
        }
}

static int export_module(const struct zl_lora *l, const struct zl_config *c, uint32_t i, enum zl_role role,
                         struct zl_adapter_module *to, struct zl_error *err)
{
    const struct zl_lora_module *m = &l->layer[i].module[role];
    char name[160];
    zl_module_name(c, l->first + i, role, name, sizeof name);
    *to = (struct zl_adapter_module){.r = m->r,
                                     .in = zl_linear_in(c, role),
                                     .out = zl_linear_out(c, role),
                                     .scale = m->scale,
                                     .name = strdup(name)};
    to->a = malloc((size_t)m->r * to->in * sizeof(float));
    to->b = malloc((size_t)m->r * to->out * sizeof(float));
    if (!to->name || !to->a || !to->b)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    memcpy(to->a, l->w + m->a, (size_t)m->r * to->in * sizeof(float));
    for (uint32_t row = 0; row < to->out; row++)
        for (uint32_t k = 0; k < m->r; k++)
            to->b[(uint64_t)row * m->r + k] = l->w[m->bt + (uint64_t)k * to->out + zl_linear_row(c, role, row)];
    return 0;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct zl_adapter_module *)x)->name, ((const struct zl_adapter_module *)y)->name);
}

int zl_lora_export(const struct zl_lora *const *parts, uint32_t n_parts, const struct zl_config *c, struct zl_adapter *out,
                   struct zl_error *err)
{
    size_t most = 0;
    for (uint32_t p = 0; p < n_parts; p++)
        most += (size_t)parts[p]->n * ZL_LINEARS;
    *out = (struct zl_adapter){.modules = calloc(most + 1, sizeof *out->modules)};
    if (!out->modules)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    for (uint32_t p = 0; p < n_parts; p++)
        for (uint32_t i = 0; i < parts[p]->n; i++)
            for (enum zl_role role = 0; role < ZL_LINEARS; role++)
                if (parts[p]->layer[i].module[role].r &&
                    export_module(parts[p], c, i, role, &out->modules[out->n++], err)) {
                    zl_adapter_free(out);
                    return ZL_EMEMORY;
                }
    qsort(out->modules, out->n, sizeof *out->modules, by_name);
    return 0;
}
