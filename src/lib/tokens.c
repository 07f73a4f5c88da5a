/* Text to token ids and back, into the caller's buffers. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lib/lib.h"

static_assert((int)ZEROLOCK_ADD_SPECIAL == (int)ZL_ENCODE_SPECIAL && (int)ZEROLOCK_PLAIN == (int)ZL_ENCODE_PLAIN, "one set of flags");

int64_t zerolock_tokenize(const struct zerolock_model *m, const char *text, size_t length, unsigned flags, int32_t *ids,
                          size_t capacity, struct zerolock_error *err)
{
    struct zl_error e = {0};
    struct zl_ids all = {0};
    int rc = flags & ~(unsigned)(ZEROLOCK_ADD_SPECIAL | ZEROLOCK_PLAIN) ? zl_fail(&e, ZL_EUSAGE, "unknown flags %#x", flags) : 0;
    if (!rc)
        rc = zl_tokenizer_encode(m->loaded.tokenizer, text, length, flags, &all, &e);
    const size_t n = all.n < capacity ? all.n : capacity;
    if (!rc && n)
        memcpy(ids, all.id, n * sizeof *ids);
    const int64_t found = (int64_t)all.n;
    zl_ids_free(&all);
    return zl_lib_finish(rc, &e, err) ? rc : found;
}

int64_t zerolock_detokenize(const struct zerolock_model *m, const int32_t *ids, size_t n, int skip_special, char *text,
                            size_t capacity, struct zerolock_error *err)
{
    struct zl_error e = {0};
    char *all = NULL;
    size_t length = 0;
    int rc = 0;
    const int32_t size = zl_tokenizer_size(m->loaded.tokenizer);
    for (size_t i = 0; !rc && i < n; i++)
        if (ids[i] < 0 || ids[i] >= size)
            rc = zl_fail(&e, ZL_EINPUT, "token %zu is %d, but the ids go from 0 to %d", i, ids[i], size - 1);
    if (!rc)
        rc = zl_tokenizer_decode(m->loaded.tokenizer, ids, n, skip_special != 0, &all, &length, &e);
    if (!rc && capacity) {
        const size_t fits = length < capacity ? length : capacity - 1;
        if (fits)
            memcpy(text, all, fits);
        text[fits] = '\0';
    }
    free(all);
    return zl_lib_finish(rc, &e, err) ? rc : (int64_t)length;
}
