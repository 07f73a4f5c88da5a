/*
 * Writing one safetensors file of float32 tensors; the byte table is in safetensors.c. Names ascend
 * in the header and in the data, and spaces behind the header put the data at a multiple of 64, so
 * the same tensors always give the same bytes. The data is written from the caller's memory:
 * nothing is copied but the header.
 */
#include "config.h"

#include "format/tensors.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "format/quote.h"

enum { DATA_ALIGNMENT = 64 };

static int compare_entries(const void *x, const void *y)
{
    const struct zl_safetensors_entry *const *a = x, *const *b = y;
    return strcmp((*a)->name, (*b)->name);
}

/* Bytes of one tensor; false when its shape is none. */
static bool entry_bytes(const struct zl_safetensors_entry *e, uint64_t *bytes)
{
    uint64_t n = 1;
    if (e->n_dims < 0 || e->n_dims > 4)
        return false;
    for (int i = 0; i < e->n_dims; i++)
        if (!zl_mul_u64(n, e->shape[i], &n))
            return false;
    return zl_mul_u64(n, sizeof(float), bytes) && *bytes <= INT64_MAX;
}

static int add_metadata(json_t *header, const char *path, const char *const *metadata,
                        struct zl_error *err)
{
    json_t *m = json_object();
    for (; metadata && metadata[0] && metadata[1]; metadata += 2)
        if (json_object_set_new(m, metadata[0], json_string(metadata[1])))
            goto fail;
    if (!json_object_size(m)) {
        json_decref(m);
        return 0;
    }
    if (!json_object_set_new(header, "__metadata__", m))
        return 0;
    m = NULL;
fail:
    json_decref(m);
    return zl_fail(err, ZL_EINPUT,
                   "%s: cannot write its metadata, expected keys and values in UTF-8", path);
}

/* The header's text for entries in their final order, padded; malloc'd. */
static char *make_header(const char *path, const struct zl_safetensors_entry *const *sorted,
                         size_t n, const char *const *metadata, size_t *length,
                         struct zl_error *err)
{
    json_t *header = json_object();
    char *text = NULL;
    uint64_t at = 0, bytes, end;
    if (add_metadata(header, path, metadata, err))
        goto out;
    for (size_t i = 0; i < n; i++) {
        const struct zl_safetensors_entry *e = sorted[i];
        if (!entry_bytes(e, &bytes) || !zl_add_u64(at, bytes, &end) || end > INT64_MAX) {
            zl_fail(err, ZL_EINPUT, "%s: cannot write \"%s\": its shape has no size", path,
                    zl_quote(e->name).s);
            goto out;
        }
        if (json_object_get(header, e->name)) {
            zl_fail(err, ZL_EINPUT, "%s: cannot write duplicate tensor name \"%s\"", path,
                    zl_quote(e->name).s);
            goto out;
        }
        json_t *shape = json_array();
        for (int k = 0; k < e->n_dims; k++)
            json_array_append_new(shape, json_integer((json_int_t)e->shape[k]));
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", "F32", "shape", shape,
                                  "data_offsets", (json_int_t)at, (json_int_t)end);
        if (!entry || json_object_set_new(header, e->name, entry)) {
            zl_fail(err, ZL_EINPUT, "%s: cannot write \"%s\", expected a name in UTF-8", path,
                    zl_quote(e->name).s);
            goto out;
        }
        at = end;
    }
    const size_t used = json_dumpb(header, NULL, 0, JSON_COMPACT);
    *length = (used + 8 + DATA_ALIGNMENT - 1) / DATA_ALIGNMENT * DATA_ALIGNMENT - 8;
    text = used ? malloc(*length) : NULL;
    if (!text) {
        zl_fail(err, ZL_EMEMORY, "%s: no memory for a header of %zu tensors", path, n);
        goto out;
    }
    memset(text + used, ' ', *length - used);
    json_dumpb(header, text, used, JSON_COMPACT);
out:
    json_decref(header);
    return text;
}

static bool write_all(int fd, const void *data, uint64_t n)
{
    const char *p = data;
    while (n) {
        ssize_t w = write(fd, p, n < 1 << 30 ? n : 1 << 30);
        if (w < 0 && errno != EINTR)
            return false;
        if (w > 0) {
            p += w;
            n -= (uint64_t)w;
        }
    }
    return true;
}

/* Everything into a new file `temporary`, on the disk when this returns true; errno tells why not.
 */
static bool write_file(const char *temporary, const char *header, size_t length,
                       const struct zl_safetensors_entry *const *sorted, size_t n)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd < 0)
        return false;
    const uint64_t length64 = length;
    uint64_t bytes = 0;
    bool ok = write_all(fd, &length64, sizeof length64) && write_all(fd, header, length);
    for (size_t i = 0; i < n && ok; i++)
        ok = entry_bytes(sorted[i], &bytes) && write_all(fd, sorted[i]->data, bytes);
    ok = ok && !fsync(fd);
    int saved = errno;
    if (close(fd) && ok)
        return false;
    errno = saved;
    return ok;
}

int zl_safetensors_write(const char *path, const struct zl_safetensors_entry *entries, size_t n,
                         const char *const *metadata, struct zl_error *err)
{
    int rc = 0;
    size_t length = 0;
    char *temporary = NULL, *header = NULL, *folder = zl_path_folder(path);
    const struct zl_safetensors_entry **sorted = calloc(n + 1, sizeof *sorted);
    if (!folder || !sorted || asprintf(&temporary, "%s.tmp-%ld", path, (long)getpid()) < 0) {
        temporary = NULL;
        rc = zl_fail(err, ZL_EMEMORY, "%s: no memory to write it", path);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        sorted[i] = &entries[i];
    qsort(sorted, n, sizeof *sorted, compare_entries);
    header = make_header(path, sorted, n, metadata, &length, err);
    if (!header) {
        rc = err && err->code ? err->code : ZL_EINPUT;
        goto out;
    }
    if (!write_file(temporary, header, length, sorted, n) || rename(temporary, path)) {
        rc = zl_fail_errno(err, ZL_ESYSTEM, "%s: cannot write it", path);
        unlink(temporary);
        goto out;
    }
    rc = zl_folder_sync(folder, err);
out:
    free(header);
    free(sorted);
    free(temporary);
    free(folder);
    return rc;
}
