/*
 * The table behind every kind of tensor file: mappings, names, look-up. It knows no format.
 * Invariant: every tensor's bytes lie inside one of the mappings (the format's reader has checked
 * that against the file's size), and names are unique.
 */
#include "config.h"

#include "format/tensors_impl.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "format/quote.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "tensor files are little-endian and used as they are");

struct zl_tensors *zl_tensors_new(struct zl_error *err)
{
    struct zl_tensors *s = calloc(1, sizeof *s);
    if (!s)
        zl_fail(err, ZL_EMEMORY, "no memory for a table of tensors");
    return s;
}

void zl_tensors_close(struct zl_tensors *s)
{
    if (!s)
        return;
    for (size_t i = 0; i < s->n_maps; i++) {
        zl_guard_remove(s->maps[i].guard);
        munmap((void *)s->maps[i].base, s->maps[i].size);
    }
    for (struct zl_pool_chunk *c = s->pool, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(s->maps);
    free(s->items);
    free(s->by_name);
    free(s->meta);
    free(s);
}

int zl_grow(void *items_pointer, size_t n, size_t *capacity, size_t size, struct zl_error *err)
{
    if (n < *capacity)
        return 0;
    size_t more = *capacity ? *capacity * 2 : 16;
    void *items;
    memcpy(&items, items_pointer, sizeof items);
    items = reallocarray(items, more, size);
    if (!items)
        return zl_fail(err, ZL_EMEMORY, "no memory for %zu table entries of %zu bytes", more, size);
    memcpy(items_pointer, &items, sizeof items);
    *capacity = more;
    return 0;
}

int zl_tensors_map(struct zl_tensors *s, const char *path, uint64_t min_bytes, const char *kind,
                   struct zl_mapped *out, struct zl_error *err)
{
    struct stat st;
    int fd, rc = zl_file_open(path, &fd, err);
    if (rc)
        return rc;
    if (fstat(fd, &st)) {
        rc = zl_fail_errno(err, ZL_ESYSTEM, "%s: cannot learn its size", path);
        goto out;
    }
    uint64_t size = (uint64_t)st.st_size;
    if (size < min_bytes || size > SIZE_MAX) {
        rc = zl_fail(err, ZL_EINPUT,
                     "%s: %llu bytes long, expected a %s file of at least %llu bytes", path,
                     (unsigned long long)size, kind, (unsigned long long)min_bytes);
        goto out;
    }
    struct zl_mapped *maps = reallocarray(s->maps, s->n_maps + 1, sizeof *maps);
    if (!maps) {
        rc = zl_fail(err, ZL_EMEMORY, "%s: no memory to open it", path);
        goto out;
    }
    s->maps = maps;
    const char *kept = zl_tensors_keep(s, path, strlen(path), err);
    if (!kept) {
        rc = ZL_EMEMORY;
        goto out;
    }
    void *base = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (base == MAP_FAILED) {
        rc = zl_fail_errno(err, ZL_ESYSTEM, "%s: cannot map its %llu bytes", path,
                           (unsigned long long)size);
        goto out;
    }
    *out = (struct zl_mapped){kept, base, size, zl_guard_add(base, size, path)};
    maps[s->n_maps++] = *out;
out:
    close(fd);
    return rc;
}

const char *zl_tensors_keep(struct zl_tensors *s, const char *text, size_t len,
                            struct zl_error *err)
{
    struct zl_pool_chunk *c = s->pool;
    if (!c || c->size - c->used <= len) {
        size_t size = len < 4096 ? 16384 : len + 1;
        c = malloc(sizeof *c + size);
        if (!c) {
            zl_fail(err, ZL_EMEMORY, "no memory for a name of %zu bytes", len);
            return NULL;
        }
        *c = (struct zl_pool_chunk){.next = s->pool, .size = size};
        s->pool = c;
    }
    char *copy = c->bytes + c->used;
    memcpy(copy, text, len);
    copy[len] = 0;
    c->used += len + 1;
    return copy;
}

int zl_tensors_add(struct zl_tensors *s, const struct zl_named_tensor *t, struct zl_error *err)
{
    int rc = zl_grow(&s->items, s->n, &s->capacity, sizeof *s->items, err);
    if (!rc)
        s->items[s->n++] = *t;
    return rc;
}

int zl_tensors_add_metadata(struct zl_tensors *s, const char *key, const char *value,
                            struct zl_error *err)
{
    int rc = zl_grow(&s->meta, s->n_meta, &s->meta_capacity, sizeof *s->meta, err);
    if (!rc)
        s->meta[s->n_meta++] = (struct zl_metadata){key, value};
    return rc;
}

static int compare_place(const void *x, const void *y)
{
    const struct zl_named_tensor *a = x, *b = y;
    if (a->t.data != b->t.data)
        return (const char *)a->t.data < (const char *)b->t.data ? -1 : 1;
    if (a->t.bytes != b->t.bytes)
        return a->t.bytes < b->t.bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

void zl_tensors_sort_file(struct zl_tensors *s, size_t first)
{
    if (s->n > first)
        qsort(s->items + first, s->n - first, sizeof *s->items, compare_place);
}

static int compare_names(const void *x, const void *y, void *context)
{
    const struct zl_named_tensor *items = context;
    return strcmp(items[*(const size_t *)x].name, items[*(const size_t *)y].name);
}

int zl_tensors_index(struct zl_tensors *s, struct zl_error *err)
{
    if (!s->n)
        return 0;
    s->by_name = reallocarray(s->by_name, s->n, sizeof *s->by_name);
    if (!s->by_name)
        return zl_fail(err, ZL_EMEMORY, "no memory for the names of %zu tensors", s->n);
    for (size_t i = 0; i < s->n; i++)
        s->by_name[i] = i;
    qsort_r(s->by_name, s->n, sizeof *s->by_name, compare_names, s->items);
    for (size_t i = 1; i < s->n; i++) {
        const struct zl_named_tensor *a = &s->items[s->by_name[i - 1]],
                                     *b = &s->items[s->by_name[i]];
        if (strcmp(a->name, b->name))
            continue;
        if (a->file != b->file)
            return zl_fail(err, ZL_EINPUT, "%s: duplicate tensor name \"%s\", it is in %s too",
                           b->file, zl_quote(b->name).s, a->file);
        return zl_fail(err, ZL_EINPUT, "%s: duplicate tensor name \"%s\", expected it once",
                       b->file, zl_quote(b->name).s);
    }
    return 0;
}

int zl_tensors_finish(struct zl_tensors *s, int rc, struct zl_tensors **out, struct zl_error *err)
{
    if (!rc)
        rc = zl_tensors_index(s, err);
    if (rc)
        zl_tensors_close(s);
    else
        *out = s;
    return rc;
}

size_t zl_tensors_count(const struct zl_tensors *s)
{
    return s->n;
}

const struct zl_named_tensor *zl_tensors_at(const struct zl_tensors *s, size_t i)
{
    return i < s->n ? &s->items[i] : NULL;
}

const struct zl_named_tensor *zl_tensors_find(const struct zl_tensors *s, const char *name)
{
    size_t low = 0, high = s->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct zl_named_tensor *t = &s->items[s->by_name[mid]];
        int order = strcmp(name, t->name);
        if (!order)
            return t;
        if (order < 0)
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}

const char *zl_tensors_metadata(const struct zl_tensors *s, const char *key)
{
    for (size_t i = 0; i < s->n_meta; i++)
        if (!strcmp(s->meta[i].key, key))
            return s->meta[i].value;
    return NULL;
}

void zl_tensors_advise(const void *data, uint64_t bytes, enum zl_advice advice)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)data, end = begin + bytes;
    if (advice == ZL_ADVICE_DONE) { /* the pages at the edges may hold a neighbour's bytes */
        begin = (begin + page - 1) & ~(page - 1);
        end &= ~(page - 1);
    } else {
        begin &= ~(page - 1);
    }
    if (begin < end)
        madvise((void *)begin, end - begin,
                advice == ZL_ADVICE_SOON ? MADV_WILLNEED : MADV_DONTNEED);
}

bool zl_shape_elements(const uint64_t *shape, size_t n, uint64_t *elements)
{
    uint64_t nonzero = 1;
    bool zero = false;
    for (size_t i = 0; i < n; i++) {
        if (!shape[i])
            zero = true;
        else if (!zl_mul_u64(nonzero, shape[i], &nonzero) || nonzero > INT64_MAX)
            return false;
    }
    *elements = zero ? 0 : nonzero;
    return true;
}
