/*
 * Reading GGUF v2 and v3, little-endian. Values by key are in gguf_meta.c; GGUF is not written
 * here.
 *
 *     u32 "GGUF"; u32 version; u64 n_tensors; u64 n_kv
 *     n_kv times:       string key; u32 type; value          string: u64 length, bytes; array: u32
 * type, u64 count, values n_tensors times:  string name; u32 n_dims; u64 dims[n_dims], innermost
 * first; u32 type; u64 offset padding to general.alignment (32 when absent), then the data; offsets
 * count from there
 *
 * Invariant: a length or a count is held against the bytes left in the file before anything is done
 * with it, and tables grow with what was really read, so a hostile file costs memory in proportion
 * to its own size.
 */
#include "config.h"

#include "format/gguf_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf_types.h"
#include "format/quote.h"
#include "format/tensors_impl.h"

enum {
    NAME_LIMIT =
        65535,        /* bytes of a key or a tensor's name, as the specification has it for keys */
    NESTING_LIMIT = 4 /* arrays in arrays */
};

struct cursor {
    const char *file;
    const unsigned char *base;
    uint64_t at, size;
};

/* The next n bytes, or NULL with the error filled. */
static const unsigned char *take(struct cursor *c, uint64_t n, const char *what,
                                 struct zl_error *err)
{
    if (n > c->size - c->at) {
        zl_fail(err, ZL_EINPUT,
                "%s: byte %" PRIu64 ": %s needs %" PRIu64 " bytes but the file has only %" PRIu64
                " left",
                c->file, c->at, what, n, c->size - c->at);
        return NULL;
    }
    const unsigned char *p = c->base + c->at;
    c->at += n;
    return p;
}

static int take_u32(struct cursor *c, uint32_t *out, const char *what, struct zl_error *err)
{
    const unsigned char *p = take(c, sizeof *out, what, err);
    if (!p)
        return ZL_EINPUT;
    memcpy(out, p, sizeof *out);
    return 0;
}

static int take_u64(struct cursor *c, uint64_t *out, const char *what, struct zl_error *err)
{
    const unsigned char *p = take(c, sizeof *out, what, err);
    if (!p)
        return ZL_EINPUT;
    memcpy(out, p, sizeof *out);
    return 0;
}

static int take_string(struct cursor *c, struct zl_gguf_str *out, const char *what,
                       struct zl_error *err)
{
    int rc = take_u64(c, &out->len, what, err);
    if (!rc && !(out->s = (const char *)take(c, out->len, what, err)))
        rc = ZL_EINPUT;
    return rc;
}

/* A key or a tensor's name, kept NUL-terminated. */
static int take_name(struct cursor *c, struct zl_tensors *s, const char **out, const char *what,
                     struct zl_error *err)
{
    struct zl_gguf_str name;
    uint64_t at = c->at;
    int rc = take_string(c, &name, what, err);
    if (rc)
        return rc;
    if (!name.len || name.len > NAME_LIMIT || memchr(name.s, 0, name.len))
        return zl_fail(err, ZL_EINPUT,
                       "%s: byte %" PRIu64 ": %s of %" PRIu64
                       " bytes, expected 1 to %d without a NUL",
                       c->file, at, what, name.len, NAME_LIMIT);
    *out = zl_tensors_keep(s, name.s, name.len, err);
    return *out ? 0 : ZL_EMEMORY;
}

static int take_type(struct cursor *c, const char *key, enum zl_gguf_type *out,
                     struct zl_error *err)
{
    uint32_t type;
    int rc = take_u32(c, &type, "the type of a value", err);
    if (rc)
        return rc;
    if (type >= GGUF_TYPES)
        return zl_fail(err, ZL_EINPUT,
                       "%s: key \"%s\": value type %" PRIu32 ", expected less than %d", c->file,
                       zl_quote(key).s, type, GGUF_TYPES);
    *out = (enum zl_gguf_type)type;
    return 0;
}

/* Step over the elements of an array; the count was not looked at yet. */
static int skip_array(struct cursor *c, const char *key, enum zl_gguf_type type, uint64_t count,
                      int depth, struct zl_error *err)
{
    const uint64_t least = type == GGUF_STRING  ? 8
                           : type == GGUF_ARRAY ? 12
                                                : zl_gguf_type_info[type].bytes;
    if (count > (c->size - c->at) / least)
        return zl_fail(err, ZL_EINPUT,
                       "%s: key \"%s\": an array of %" PRIu64
                       " values of type %s does not fit the %" PRIu64 " bytes left",
                       c->file, zl_quote(key).s, count, zl_gguf_type_info[type].name,
                       c->size - c->at);
    if (type != GGUF_STRING && type != GGUF_ARRAY) {
        c->at += count * least;
        return 0;
    }
    if (type == GGUF_ARRAY && depth >= NESTING_LIMIT)
        return zl_fail(err, ZL_EINPUT, "%s: key \"%s\": arrays nested deeper than %d", c->file,
                       zl_quote(key).s, NESTING_LIMIT);
    int rc = 0;
    for (uint64_t i = 0; i < count && !rc; i++) {
        if (type == GGUF_STRING) {
            struct zl_gguf_str s;
            rc = take_string(c, &s, "a text in an array", err);
        } else {
            enum zl_gguf_type inner;
            uint64_t n;
            rc = take_type(c, key, &inner, err);
            if (!rc)
                rc = take_u64(c, &n, "the length of an array", err);
            if (!rc)
                rc = skip_array(c, key, inner, n, depth + 1, err);
        }
    }
    return rc;
}

/* Aligned copies of the arrays that are asked for by pointer; their bytes were walked over before.
 */
static int copy_array(struct zl_gguf_kv *kv, const struct cursor *c, struct zl_error *err)
{
    const bool text = kv->element == GGUF_STRING;
    if (!kv->count ||
        (!text && kv->element != GGUF_F32 && kv->element != GGUF_I32 && kv->element != GGUF_U32))
        return 0;
    kv->copy = reallocarray(NULL, kv->count, text ? sizeof(struct zl_gguf_str) : 4);
    if (!kv->copy)
        return zl_fail(err, ZL_EMEMORY, "%s: no memory for the %" PRIu64 " values of \"%s\"",
                       c->file, kv->count, zl_quote(kv->key).s);
    if (!text) {
        memcpy(kv->copy, kv->data, kv->count * 4);
        return 0;
    }
    struct zl_gguf_str *s = kv->copy;
    struct cursor again = {c->file, c->base, (uint64_t)(kv->data - c->base), c->at};
    for (uint64_t i = 0; i < kv->count; i++)
        if (take_string(&again, &s[i], "a text in an array", err))
            return ZL_EINPUT;
    return 0;
}

static int read_value(struct cursor *c, struct zl_gguf_kv *kv, struct zl_error *err)
{
    int rc = take_type(c, kv->key, &kv->type, err);
    if (rc)
        return rc;
    if (kv->type == GGUF_STRING) {
        struct zl_gguf_str s;
        rc = take_string(c, &s, "a text value", err);
        if (!rc) {
            kv->count = s.len;
            kv->data = (const unsigned char *)s.s;
        }
        return rc;
    }
    if (kv->type != GGUF_ARRAY) {
        kv->data = take(c, zl_gguf_type_info[kv->type].bytes, "a value", err);
        return kv->data ? 0 : ZL_EINPUT;
    }
    if ((rc = take_type(c, kv->key, &kv->element, err)) ||
        (rc = take_u64(c, &kv->count, "the length of an array", err)))
        return rc;
    kv->data = c->base + c->at;
    rc = skip_array(c, kv->key, kv->element, kv->count, 1, err);
    return rc ? rc : copy_array(kv, c, err);
}

static int read_metadata(struct zl_gguf *g, struct cursor *c, uint64_t n, struct zl_error *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++) {
        struct zl_gguf_kv kv = {0};
        rc = take_name(c, g->tensors, &kv.key, "a key", err);
        if (!rc)
            rc = zl_grow(&g->kv, g->n_kv, &g->capacity, sizeof *g->kv, err);
        if (!rc) {
            rc = read_value(c, &kv, err);
            g->kv[g->n_kv++] = kv; /* also when it failed: it may own a copy */
        }
    }
    return rc ? rc : zl_gguf_index(g, err);
}

/* Shape, type and size of one tensor; its offset from the start of the data goes into *offset. */
static int read_tensor(struct cursor *c, struct zl_tensors *s, struct zl_named_tensor *t,
                       uint64_t *offset, struct zl_error *err)
{
    uint32_t n_dims, type;
    int rc = take_name(c, s, &t->name, "a tensor's name", err);
    if (rc || (rc = take_u32(c, &n_dims, "a number of dimensions", err)))
        return rc;
    if (n_dims > 4)
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\": %" PRIu32 " dimensions, expected at most 4", c->file,
                       zl_quote(t->name).s, n_dims);
    t->t.n_dims = (int)n_dims;
    for (uint32_t i = 0; i < n_dims; i++)
        if ((rc = take_u64(c, &t->t.shape[n_dims - 1 - i], "a dimension", err)))
            return rc;
    if ((rc = take_u32(c, &type, "a tensor's type", err)) ||
        (rc = take_u64(c, offset, "a tensor's offset", err)))
        return rc;

    uint64_t elements;
    if (!zl_shape_elements(t->t.shape, n_dims, &elements))
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\": the product of its dimensions does not fit 63 bits",
                       c->file, zl_quote(t->name).s);
    const struct zl_ggml_type *info = zl_ggml_type(type);
    t->t.type = info ? info->type : ZL_OTHER;
    if (!info) { /* of unknown size: it reaches to whatever comes next, see place_tensors() */
        char text[16];
        int len = snprintf(text, sizeof text, "type %" PRIu32, type);
        t->type_name = zl_tensors_keep(s, text, (size_t)len, err);
        t->t.bytes = UINT64_MAX;
        return t->type_name ? 0 : ZL_EMEMORY;
    }
    t->type_name = info->name;
    const uint64_t row = n_dims ? t->t.shape[n_dims - 1] : 1;
    if (row % info->block)
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\": rows of %" PRIu64
                       " elements, expected a multiple of %s's %" PRIu32,
                       c->file, zl_quote(t->name).s, row, info->name, info->block);
    if (!zl_mul_u64(elements / info->block, info->block_bytes, &t->t.bytes))
        return zl_fail(err, ZL_EINPUT, "%s: tensor \"%s\": its size in bytes does not fit 64 bits",
                       c->file, zl_quote(t->name).s);
    return 0;
}

static int read_tensors(struct zl_gguf *g, struct cursor *c, uint64_t n, struct zl_error *err)
{
    int rc = 0;
    for (uint64_t i = 0; i < n && !rc; i++) {
        struct zl_named_tensor t = {.file = g->path};
        uint64_t offset = 0;
        rc = read_tensor(c, g->tensors, &t, &offset, err);
        if (!rc && offset > c->size)
            rc = zl_fail(err, ZL_EINPUT,
                         "%s: tensor \"%s\": offset %" PRIu64
                         " lies past the end of the file's %" PRIu64 " bytes",
                         c->file, zl_quote(t.name).s, offset, c->size);
        if (!rc) {
            t.t.data =
                c->base + offset; /* from the start of the data, moved there by place_tensors() */
            rc = zl_tensors_add(g->tensors, &t, err);
        }
    }
    return rc;
}

/* Offsets become addresses: aligned, inside the file, without overlap. */
static int place_tensors(struct zl_tensors *s, const struct cursor *c, uint64_t alignment,
                         struct zl_error *err)
{
    if (!s->n)
        return 0;
    uint64_t start;
    if (!zl_add_u64(c->at, alignment - 1, &start) || (start -= start % alignment) > c->size)
        return zl_fail(err, ZL_EINPUT, "%s: the file ends at byte %" PRIu64 ", before its data",
                       c->file, c->size);
    const uint64_t room = c->size - start;
    zl_tensors_sort_file(s, 0);
    uint64_t behind = 0; /* where the bytes of the tensors so far end */
    for (size_t i = 0; i < s->n; i++) {
        struct zl_named_tensor *t = &s->items[i];
        uint64_t offset = (uint64_t)((const unsigned char *)t->t.data - c->base), end;
        if (offset % alignment)
            return zl_fail(err, ZL_EINPUT,
                           "%s: tensor \"%s\": offset %" PRIu64
                           ", expected a multiple of the alignment %" PRIu64,
                           c->file, zl_quote(t->name).s, offset, alignment);
        if (t->t.bytes == UINT64_MAX && offset <= room) {
            uint64_t next =
                i + 1 < s->n ? (uint64_t)((const unsigned char *)t[1].t.data - c->base) : room;
            t->t.bytes = (next < room ? next : room) - offset;
        }
        if (!zl_add_u64(offset, t->t.bytes, &end) || end > room)
            return zl_fail(err, ZL_EINPUT,
                           "%s: tensor \"%s\": %" PRIu64 " bytes at offset %" PRIu64
                           " reach past the %" PRIu64 " bytes of data in the file",
                           c->file, zl_quote(t->name).s, t->t.bytes, offset, room);
        if (offset < behind)
            return zl_fail(err, ZL_EINPUT,
                           "%s: tensor \"%s\" at offset %" PRIu64
                           " overlaps the one before it, which ends at %" PRIu64,
                           c->file, zl_quote(t->name).s, offset, behind);
        behind = end;
        t->t.data = c->base + start + offset;
    }
    return 0;
}

static int read_alignment(const struct zl_gguf *g, uint64_t *out, struct zl_error *err)
{
    *out = 32;
    int rc = zl_gguf_u64(g, "general.alignment", out, err);
    if (rc < 0)
        return rc;
    if (*out < 8 || *out > UINT32_MAX || (*out & (*out - 1)))
        return zl_fail(err, ZL_EINPUT,
                       "%s: general.alignment is %" PRIu64 ", expected a power of two from 8 on",
                       g->path, *out);
    return 0;
}

static int read_all(struct zl_gguf *g, struct cursor *c, struct zl_error *err)
{
    uint32_t version;
    uint64_t n_tensors, n_kv, alignment;
    if (memcmp(take(c, 4, "the magic", err), "GGUF", 4))
        return zl_fail(err, ZL_EINPUT, "%s: not a GGUF file, expected it to start with \"GGUF\"",
                       c->file);
    int rc = take_u32(c, &version, "the version", err);
    if (rc || (rc = take_u64(c, &n_tensors, "the number of tensors", err)) ||
        (rc = take_u64(c, &n_kv, "the number of keys", err)))
        return rc;
    if (version != 2 && version != 3)
        return zl_fail(err, ZL_EINPUT, "%s: GGUF version %" PRIu32 "%s, expected 2 or 3", c->file,
                       version, version && !(version & 0xffff) ? " (a big-endian file)" : "");
    const uint64_t left = c->size - c->at;
    if (n_kv > left / 13 || n_tensors > left / 24)
        return zl_fail(err, ZL_EINPUT,
                       "%s: %" PRIu64 " tensors and %" PRIu64 " keys do not fit the file's %" PRIu64
                       " bytes",
                       c->file, n_tensors, n_kv, c->size);
    if ((rc = read_metadata(g, c, n_kv, err)) || (rc = read_alignment(g, &alignment, err)) ||
        (rc = read_tensors(g, c, n_tensors, err)) ||
        (rc = place_tensors(g->tensors, c, alignment, err)))
        return rc;
    return zl_tensors_index(g->tensors, err);
}

int zl_gguf_open(const char *path, struct zl_gguf **out, struct zl_error *err)
{
    struct zl_gguf *g = calloc(1, sizeof *g);
    if (!g)
        return zl_fail(err, ZL_EMEMORY, "%s: no memory to open it", path);
    struct zl_mapped m;
    int rc = (g->tensors = zl_tensors_new(err)) ? 0 : ZL_EMEMORY;
    if (!rc)
        rc = zl_tensors_map(g->tensors, path, 24, "GGUF", &m, err);
    if (!rc) {
        g->path = m.path;
        rc = read_all(g, &(struct cursor){m.path, m.base, 0, m.size}, err);
    }
    if (rc)
        zl_gguf_close(g);
    else
        *out = g;
    return rc;
}

void zl_gguf_close(struct zl_gguf *g)
{
    if (!g)
        return;
    for (size_t i = 0; i < g->n_kv; i++)
        free(g->kv[i].copy);
    free(g->kv);
    free(g->by_key);
    zl_tensors_close(g->tensors);
    free(g);
}

const char *zl_gguf_path(const struct zl_gguf *g)
{
    return g->path;
}

const struct zl_tensors *zl_gguf_tensors(const struct zl_gguf *g)
{
    return g->tensors;
}
