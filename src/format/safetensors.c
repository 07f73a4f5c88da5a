/*
 * Reading one safetensors file. Directories with shards are in safetensors_dir.c, writing is in
 * safetensors_write.c.
 *
 *     bytes        what
 *     0..7         n: length of the header, little-endian
 *     8..8+n-1     JSON object, starting with `{`, spaces allowed behind it:
 *                  "__metadata__": {text: text, …}
 *                  NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, offsets
 * relative to byte 8+n 8+n..        the data, row-major, little-endian; the tensors cover it
 * without a hole and without overlap
 *
 * Invariant: nothing is allocated from a number in the file before that number was held against the
 * file's size; memory is bounded by what the header's entries themselves take.
 */
#include "format/tensors_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/json_walk.h"
#include "format/quote.h"

enum {
    HEADER_LIMIT = 100000000, /* bytes, as in the reference implementation */
    ENTRY_LIMIT = 1 << 16,    /* bytes of JSON text of one tensor's entry */
    DIMS_LIMIT = 64
};

/* Element types of the format, with their size in bits. What we compute with is told by
 * zl_type_info. */
static const struct {
    const char *name;
    unsigned bits;
} dtypes[] = {
    {"F32", 32},    {"F16", 16},    {"BF16", 16},       {"F64", 64},        {"I64", 64},
    {"I32", 32},    {"I16", 16},    {"I8", 8},          {"U64", 64},        {"U32", 32},
    {"U16", 16},    {"U8", 8},      {"BOOL", 8},        {"C64", 64},        {"F8_E4M3", 8},
    {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6},
    {"F6_E3M2", 6}, {"F4", 4},
};

struct reader {
    struct zl_tensors *s;
    const char *file;
    const unsigned char *data; /* byte 8+n of the file */
    uint64_t data_bytes;
};

static bool get_u64(const json_t *v, uint64_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

static enum zl_type type_of(const char *dtype)
{
    for (int i = 0; i < ZL_TYPES; i++)
        if (zl_type_info[i].safetensors && !strcmp(zl_type_info[i].safetensors, dtype))
            return (enum zl_type)i;
    return ZL_OTHER;
}

static unsigned bits_of(const char *dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (!strcmp(dtypes[i].name, dtype))
            return dtypes[i].bits;
    return 0;
}

/* shape[] as the file has it; more than four dimensions are kept as one tensor that we do not
 * compute with, its leading dimensions folded into the first. */
static int set_shape(const struct reader *r, struct zl_named_tensor *t, const uint64_t *shape,
                     size_t n, uint64_t elements, struct zl_error *err)
{
    if (n <= 4) {
        t->t.n_dims = (int)n;
        memcpy(t->t.shape, shape, n * sizeof *shape);
        return 0;
    }
    char text[64];
    int len = snprintf(text, sizeof text, "%s of %zu dimensions",
                       zl_quote_n(t->type_name, strnlen(t->type_name, 16)).s, n);
    t->type_name = zl_tensors_keep(r->s, text, (size_t)len, err);
    t->t.type = ZL_OTHER;
    t->t.n_dims = 1;
    t->t.shape[0] = elements;
    return t->type_name ? 0 : ZL_EMEMORY;
}

/* The [begin, end) of an entry, held against the file. */
static int get_offsets(const struct reader *r, const char *name, const json_t *v, uint64_t *begin,
                       uint64_t *end, struct zl_error *err)
{
    if (json_array_size(v) != 2 || !get_u64(json_array_get(v, 0), begin) ||
        !get_u64(json_array_get(v, 1), end))
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\": data_offsets is not [begin, end] of two whole numbers",
                       r->file, zl_quote(name).s);
    if (*begin > *end || *end > r->data_bytes)
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\": data_offsets [%" PRIu64 ", %" PRIu64
                       "] do not lie within the %" PRIu64 " bytes of data that the file holds",
                       r->file, zl_quote(name).s, *begin, *end, r->data_bytes);
    return 0;
}

static int add_entry(const struct reader *r, const char *name, const json_t *entry,
                     struct zl_error *err)
{
    const json_t *dtype = json_object_get(entry, "dtype"), *dims = json_object_get(entry, "shape");
    if (!json_is_string(dtype) || !json_is_array(dims))
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\": expected an object with dtype (text), shape and "
                       "data_offsets (arrays)",
                       r->file, zl_quote(name).s);

    size_t n = json_array_size(dims);
    uint64_t shape[DIMS_LIMIT], elements, begin = 0, end = 0;
    if (n > DIMS_LIMIT)
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\": shape has %zu dimensions, expected at most %d", r->file,
                       zl_quote(name).s, n, DIMS_LIMIT);
    for (size_t i = 0; i < n; i++)
        if (!get_u64(json_array_get(dims, i), &shape[i]))
            return zl_fail(err, ZL_EINPUT,
                           "%s: tensor \"%s\": dimension %zu of shape is not a whole number >= 0",
                           r->file, zl_quote(name).s, i);
    if (!zl_shape_elements(shape, n, &elements))
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\": the product of its shape does not fit 63 bits", r->file,
                       zl_quote(name).s);

    int rc = get_offsets(r, name, json_object_get(entry, "data_offsets"), &begin, &end, err);
    if (rc)
        return rc;
    const char *type = json_string_value(dtype);
    unsigned bits = bits_of(type);
    uint64_t total;
    if (bits && (!zl_mul_u64(elements, bits, &total) || total % 8 || total / 8 != end - begin))
        return zl_fail(err, ZL_EINPUT,
                       "%s: tensor \"%s\": %" PRIu64 " elements of %s do not take the %" PRIu64
                       " bytes that its data_offsets span",
                       r->file, zl_quote(name).s, elements, type, end - begin);

    struct zl_named_tensor t = {.file = r->file};
    t.t.type = type_of(type);
    t.t.data = r->data + begin;
    t.t.bytes = end - begin;
    t.name = zl_tensors_keep(r->s, name, strlen(name), err);
    t.type_name = zl_tensors_keep(r->s, type, strlen(type), err);
    if (!t.name || !t.type_name)
        return ZL_EMEMORY;
    rc = set_shape(r, &t, shape, n, elements, err);
    return rc ? rc : zl_tensors_add(r->s, &t, err);
}

static int compare_metadata(const void *x, const void *y)
{
    return strcmp(((const struct zl_metadata *)x)->key, ((const struct zl_metadata *)y)->key);
}

static int read_metadata(const struct reader *r, struct zl_json_walk *w, struct zl_error *err)
{
    struct zl_tensors *s = r->s;
    size_t first = s->n_meta;
    int rc = zl_json_enter(w, err);
    json_t *key, *value;
    while (!rc && (rc = zl_json_next(w, &key, err)) == 1) {
        if (!zl_json_at_string(w)) {
            rc = zl_fail(err, ZL_EINPUT, "%s: __metadata__ key \"%s\": its value is not text",
                         r->file, zl_quote(json_string_value(key)).s);
        } else if (!(rc = zl_json_value(w, HEADER_LIMIT, &value, err))) {
            const char *k =
                zl_tensors_keep(s, json_string_value(key), json_string_length(key), err);
            const char *v =
                zl_tensors_keep(s, json_string_value(value), json_string_length(value), err);
            rc = k && v ? zl_tensors_add_metadata(s, k, v, err) : ZL_EMEMORY;
            json_decref(value);
        }
        json_decref(key);
    }
    if (rc)
        return rc;
    if (s->n_meta > first)
        qsort(s->meta + first, s->n_meta - first, sizeof *s->meta, compare_metadata);
    for (size_t i = first + 1; i < s->n_meta; i++)
        if (!strcmp(s->meta[i - 1].key, s->meta[i].key))
            return zl_fail(err, ZL_EINPUT,
                           "%s: duplicate __metadata__ key \"%s\", expected it once", r->file,
                           zl_quote(s->meta[i].key).s);
    return 0;
}

static int read_header(const struct reader *r, struct zl_json_walk *w, struct zl_error *err)
{
    bool metadata = false;
    int rc = zl_json_enter(w, err);
    json_t *key, *entry;
    while (!rc && (rc = zl_json_next(w, &key, err)) == 1) {
        const char *name = json_string_value(key);
        if (!strcmp(name, "__metadata__")) {
            rc = metadata ? zl_fail(err, ZL_EINPUT,
                                    "%s: duplicate key \"__metadata__\", expected it once", r->file)
                          : read_metadata(r, w, err);
            metadata = true;
        } else if (!(rc = zl_json_value(w, ENTRY_LIMIT, &entry, err))) {
            rc = add_entry(r, name, entry, err);
            json_decref(entry);
        }
        json_decref(key);
    }
    return rc ? rc : zl_json_finish(w, err);
}

/* Sorted by place, each tensor must begin where the one before it ends, and the last must end the
 * file. */
static int check_cover(const struct reader *r, size_t first, struct zl_error *err)
{
    uint64_t at = 0;
    for (size_t i = first; i < r->s->n; i++) {
        const struct zl_named_tensor *t = &r->s->items[i];
        uint64_t begin = (uint64_t)((const unsigned char *)t->t.data - r->data);
        if (begin != at)
            return zl_fail(err, ZL_EINPUT,
                           "%s: tensor \"%s\" begins at data byte %" PRIu64
                           ", which %s the tensor before it; expected %" PRIu64,
                           r->file, zl_quote(t->name).s, begin,
                           begin < at ? "overlaps" : "leaves a hole behind", at);
        at = begin + t->t.bytes;
    }
    if (at != r->data_bytes)
        return zl_fail(err, ZL_EINPUT,
                       "%s: its tensors end at data byte %" PRIu64 " but the file holds %" PRIu64
                       " bytes of data",
                       r->file, at, r->data_bytes);
    return 0;
}

static int check_duplicates(const struct reader *r, size_t first, struct zl_error *err)
{
    if (r->s->n == first)
        return 0;
    struct zl_tensors one = {.items = r->s->items + first, .n = r->s->n - first};
    int rc = zl_tensors_index(&one, err);
    free(one.by_name);
    return rc;
}

int zl_safetensors_read(struct zl_tensors *s, const char *path, struct zl_error *err)
{
    struct zl_mapped m;
    int rc = zl_tensors_map(s, path, 10, "safetensors", &m, err);
    if (rc)
        return rc;
    uint64_t n;
    memcpy(&n, m.base, sizeof n);
    if (n < 2 || n > HEADER_LIMIT || n > m.size - 8)
        return zl_fail(err, ZL_EINPUT,
                       "%s: header length %" PRIu64 " at byte 0, expected 2 to %" PRIu64
                       " (the file has %" PRIu64 " bytes)",
                       path, n, m.size - 8 < HEADER_LIMIT ? m.size - 8 : (uint64_t)HEADER_LIMIT,
                       m.size);
    if (m.base[8] != '{')
        return zl_fail(err, ZL_EINPUT,
                       "%s: the header at byte 8 starts with byte 0x%02x, expected \"{\"", path,
                       m.base[8]);

    struct reader r = {s, m.path, m.base + 8 + n, m.size - 8 - n};
    struct zl_json_walk w;
    zl_json_walk_init(&w, m.path, 8, (const char *)m.base + 8, n);
    size_t first = s->n;
    rc = read_header(&r, &w, err);
    if (rc)
        return rc;
    rc = check_duplicates(&r, first,
                          err); /* first: a name that is there twice also breaks the cover */
    if (rc)
        return rc;
    zl_tensors_sort_file(s, first);
    return check_cover(&r, first, err);
}

int zl_safetensors_open(const char *path, struct zl_tensors **out, struct zl_error *err)
{
    struct zl_tensors *s = zl_tensors_new(err);
    if (!s)
        return ZL_EMEMORY;
    return zl_tensors_finish(s, zl_safetensors_read(s, path, err), out, err);
}
