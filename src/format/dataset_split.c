/*
 * A held-out share of a dataset. Which examples it takes is a function of (seed, number of
 * examples) alone: the first k places of a pseudo-random permutation. Called by the commands that
 * train with --held-out as a share.
 */
#include "format/dataset_build.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"

static bool chosen(uint64_t seed, uint64_t n, uint64_t i, uint64_t k)
{
    return zl_random_permute(seed, ZL_STREAM_SPLIT, 0, n, i) < k;
}

/* Room in h for k examples of `tokens` tokens together, and the file names of d. */
static int reserve(struct zl_dataset *h, const struct zl_dataset *d, uint64_t k, uint64_t tokens,
                   struct zl_error *err)
{
    h->examples = calloc(k, sizeof *h->examples);
    h->tokens = calloc(tokens, sizeof *h->tokens);
    h->trained = calloc(tokens, sizeof *h->trained);
    h->files = calloc(d->n_files ? d->n_files : 1, sizeof *h->files);
    bool ok = h->examples && h->tokens && h->trained && h->files;
    for (; ok && h->n_files < d->n_files; h->n_files++)
        ok = (h->files[h->n_files] = strdup(d->files[h->n_files])) != NULL;
    return ok ? 0 : zl_fail(err, ZL_EMEMORY, "no memory for %" PRIu64 " held-out tokens", tokens);
}

/* Put example e of `from` behind the examples of `to` (which may be `from` itself, further front).
 */
static void move(struct zl_dataset *to, const struct zl_dataset *from, struct zl_example e)
{
    memmove(to->tokens + to->n_tokens, from->tokens + e.first, e.n * sizeof *to->tokens);
    memmove(to->trained + to->n_tokens, from->trained + e.first, e.n);
    e.first = to->n_tokens;
    to->n_tokens += e.n;
    to->examples[to->n_examples++] = e;
}

int zl_dataset_split(struct zl_dataset *from, double share, uint64_t seed,
                     struct zl_dataset *held_out, struct zl_error *err)
{
    memset(held_out, 0, sizeof *held_out);
    const uint64_t n = from->n_examples;
    if (!(share > 0 && share < 1))
        return zl_fail(err, ZL_EUSAGE, "the held-out share must be above 0 and below 1");
    if (n < 2)
        return zl_fail(err, ZL_EINPUT,
                       "the data holds %" PRIu64 " example, too few to hold one out", n);
    uint64_t k = (uint64_t)llround(share * (double)n), tokens = 0;
    k = k < 1 ? 1 : k > n - 1 ? n - 1 : k;
    for (uint64_t i = 0; i < n; i++)
        tokens += chosen(seed, n, i, k) ? from->examples[i].n : 0;
    struct zl_dataset h = {0};
    int rc = reserve(&h, from, k, tokens, err);
    if (rc) {
        zl_dataset_free(&h);
        return rc;
    }
    from->n_examples = from->n_tokens = 0;
    for (uint64_t i = 0; i < n; i++)
        move(chosen(seed, n, i, k) ? &h : from, from, from->examples[i]);
    zl_data_report_recount(from);
    zl_data_report_recount(&h);
    h.report.rows = h.report.kept;
    from->report.rows -= h.report.kept;
    h.report.no_eos = from->report.no_eos;
    *held_out = h;
    return 0;
}
