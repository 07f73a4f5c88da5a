/* The readouts' maps as a file: see maps.h. */
#include "train/maps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "format/tensors.h"
#include "store/hash.h"

static void name_of(char name[32], uint32_t stage, char which)
{
    snprintf(name, 32, "stage.%u.%c", stage, which);
}

void zl_maps_hash(const struct zl_readouts *r, uint32_t stages, int64_t d, char text[33])
{
    struct zl_hash all = {{0}};
    bool any = false;
    text[0] = '\0';
    for (uint32_t k = 0; k < stages; k++)
        if (r->a[k]) {
            const struct zl_hash piece[3] = {all, zl_hash_of(r->a[k], (size_t)(d * d) * sizeof(float)),
                                             zl_hash_of(r->b[k], (size_t)d * sizeof(float))};
            all = zl_hash_of(piece, sizeof piece);
            any = true;
        }
    for (size_t i = 0; any && i < sizeof all.byte; i++)
        snprintf(text + 2 * i, 3, "%02x", all.byte[i]);
}

int zl_maps_write(const char *path, const struct zl_readouts *r, uint32_t stages, int64_t d, struct zl_error *err)
{
    struct zl_safetensors_entry entry[2 * ZL_STAGES_MAX];
    char name[2 * ZL_STAGES_MAX][32], tokens[32];
    size_t n = 0;
    for (uint32_t k = 0; k < stages; k++)
        for (int b = 0; r->a[k] && b < 2; b++) {
            name_of(name[n], k, b ? 'b' : 'a');
            entry[n] = (struct zl_safetensors_entry){name[n], b ? 1 : 2, {(uint64_t)d, (uint64_t)d}, b ? r->b[k] : r->a[k]};
            n++;
        }
    snprintf(tokens, sizeof tokens, "%llu", (unsigned long long)r->tokens);
    const char *const metadata[] = {"tokens", tokens, NULL};
    return n ? zl_safetensors_write(path, entry, n, metadata, err) : 0;
}

static float *take(const struct zl_tensors *t, const char *path, uint32_t stage, char which, uint64_t floats, struct zl_error *err)
{
    char name[32];
    name_of(name, stage, which);
    const struct zl_named_tensor *x = zl_tensors_find(t, name);
    float *copy = x && x->t.type == ZL_F32 && x->t.bytes == floats * sizeof(float) ? malloc((size_t)x->t.bytes) : NULL;
    if (copy)
        memcpy(copy, x->t.data, (size_t)x->t.bytes);
    else
        zl_fail(err, ZL_EINPUT, "%s: no tensor %s of %llu floats", path, name, (unsigned long long)floats);
    return copy;
}

int zl_maps_read(const char *path, const struct zl_partition *p, int64_t d, const char *hash, struct zl_readouts *r, struct zl_error *err)
{
    struct zl_tensors *t = NULL;
    char found[33];
    *r = (struct zl_readouts){0};
    int rc = zl_safetensors_open(path, &t, err);
    for (uint32_t k = 0; k < p->n && !rc; k++) {
        if (!p->cut[k].map)
            continue;
        r->map[k].landing = p->cut[k].first + p->cut[k].n_own + p->cut[k].n_shadow;
        r->a[k] = r->map[k].a = take(t, path, k, 'a', (uint64_t)(d * d), err);
        r->b[k] = r->map[k].b = r->a[k] ? take(t, path, k, 'b', (uint64_t)d, err) : NULL;
        rc = r->b[k] ? 0 : ZL_EINPUT;
    }
    const char *tokens = rc ? NULL : zl_tensors_metadata(t, "tokens");
    if (!rc)
        zl_maps_hash(r, p->n, d, found);
    if (!rc && strcmp(found, hash) != 0)
        rc = zl_fail(err, ZL_EINPUT, "%s does not hold the maps that this run began with", path);
    if (!rc && tokens)
        rc = zl_number_u64(tokens, path, &r->tokens, err);
    if (rc) {
        zl_readouts_free(r);
        *r = (struct zl_readouts){0};
    }
    if (t)
        zl_tensors_close(t);
    return rc;
}
