/*
 * Mutated data files through the dataset loader: a fixed, reproducible series (the counter-based
 * generator numbers the runs). Whatever the bytes: either a data set whose sums hold, or one
 * sentence. Argument 1: number of runs; argument 2: the first run (to repeat one alone: `fuzz-jsonl
 * 1 4711`).
 */
#define _GNU_SOURCE /* memfd_create */
#include "tests/unit/test.h"
#include "tests/unit/byte-tokenizer.h"

#include <sys/mman.h>

#include "base/rng.h"
#include "format/dataset.h"

enum { RUNS = 100000, LARGEST = 4096 };

static const char *const seeds[] = {
    "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n{\"prompt\": \"\", \"completion\": \" x\"}\n",
    "{\"text\": \"abc \\u00e9 \\ud83d\\ude00 \xC3\xA9\"}\r\n\r\n{\"text\": \"\"}\r{\"text\": "
    "\"d\"}",
    "{\"messages\": [{\"role\": \"user\", \"content\": \"u\"}, {\"role\": \"assistant\", "
    "\"content\": \"a\"}]}\n",
    "\xEF\xBB\xBF{\"text\": \"a\", \"idx\": [1, 2.5e3, -4], \"label\": true, \"x\": null}\n",
    "plain text\nof three\r\nlines </s> and an end\n",
    "[{\"text\": \"a\"}, {\"text\": \"b\"}]\n",
    "{\"conversations\": [{\"from\": \"human\", \"value\": \"q\"}]}\n",
    "{\"instruction\": \"i\", \"input\": \"\", \"output\": \"o\"}\n",
};

static const char *const words[] = {
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "\\",
    "\n",
    "\r",
    "\r\n",
    "\\u",
    " ",
    "null",
    "true",
    "1e999",
    "-0",
    "\\ud800",
    "\\u0000",
    "<s>",
    "</s>",
    "\t",
    "{}",
    "[]",
    "\"text\"",
    "\"prompt\"",
    "\"completion\"",
    "\xFF",
    "\xC3",
    "\xEF\xBB\xBF",
    "\xF0\x9F\x98\x80",
    "[[[[[[[[",
    "18446744073709551616",
    "\"messages\"",
    "\"role\"",
    "\"content\"",
    "\"assistant\"",
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The run's own sequence of numbers below n. */
static uint64_t below(uint64_t run, uint64_t *draws, uint64_t n)
{
    return zl_random_u64(run, ZL_STREAM_TEST, 1, (*draws)++) % n;
}

static size_t insert(char *text, size_t n, size_t at, const char *what, size_t len)
{
    if (n + len > LARGEST)
        return n;
    char copy[LARGEST];
    memcpy(copy, what, len);
    memmove(text + at + len, text + at, n - at);
    memcpy(text + at, copy, len);
    return n + len;
}

static size_t mutate(uint64_t run, char *text)
{
    uint64_t draws = 0;
    const char *seed = seeds[below(run, &draws, COUNT(seeds))];
    size_t n = strlen(seed);
    memcpy(text, seed, n);
    for (uint64_t k = 1 + below(run, &draws, 6); k > 0; k--) {
        size_t at = below(run, &draws, n + 1), len = below(run, &draws, n - at + 1);
        const char *other = seeds[below(run, &draws, COUNT(seeds))];
        const char *word = words[below(run, &draws, COUNT(words))];
        switch (below(run, &draws, 7)) {
        case 0: /* flip a bit */
            if (at < n)
                text[at] ^= (char)(1 << below(run, &draws, 8));
            break;
        case 1: /* any byte */
            if (at < n)
                text[at] = (char)below(run, &draws, 256);
            break;
        case 2: /* remove a range */
            memmove(text + at, text + at + len, n - at - len);
            n -= len;
            break;
        case 3: /* repeat a range */
            n = insert(text, n, at, text + at, len);
            break;
        case 4:
            n = insert(text, n, at, word, strlen(word));
            break;
        case 5:
            n = insert(text, n, at, other, strlen(other));
            break;
        case 6: /* cut the end off */
            n = at;
            break;
        }
    }
    return n;
}

static bool sums_hold(const struct zl_dataset *d, uint32_t max_length)
{
    uint64_t tokens = 0, trained = 0, dropped = 0;
    for (uint64_t i = 0; i < d->n_examples; i++) {
        const struct zl_example *e = &d->examples[i];
        uint32_t labels = 0;
        if (e->first != tokens || e->n < 2 || e->n > max_length || d->trained[e->first])
            return false;
        for (uint32_t k = 0; k < e->n; k++)
            labels += d->trained[e->first + k];
        if (!labels || labels != e->n_trained)
            return false;
        tokens += e->n;
        trained += labels;
    }
    for (int k = 0; k < ZL_DROP_REASONS; k++)
        dropped += d->report.dropped[k];
    return d->n_examples && tokens == d->n_tokens && trained == d->report.trained &&
           d->report.rows == d->report.kept + dropped && d->report.kept == d->n_examples;
}

int main(int argc, char **argv)
{
    uint64_t runs = argc > 1 ? (uint64_t)atoll(argv[1]) : RUNS;
    uint64_t first = argc > 2 ? (uint64_t)atoll(argv[2]) : 0, loaded = 0;
    struct zl_tokenizer *t = byte_tokenizer(BYTES_CHATML | BYTES_BOS);
    int fd = memfd_create("fuzz-jsonl", 0);
    char path[64], text[LARGEST];
    const char *paths[] = {path};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (uint64_t run = first; run < first + runs; run++) {
        size_t n = mutate(run, text);
        if (ftruncate(fd, 0) || pwrite(fd, text, n, 0) != (ssize_t)n)
            return perror("memfd"), 99;
        const struct zl_data_options o = {.max_length = 2 + (uint32_t)(run % 40),
                                          .add_bos_eos = run % 2};
        struct zl_dataset d, held_out;
        struct zl_error err = {0};
        int rc = zl_dataset_load(paths, 1, t, &o, &d, &err);
        bool good = rc == err.code && (rc == 0 || rc == ZL_EINPUT);
        good = good &&
               (rc ? err.text[0] && !strpbrk(err.text, "\n\r\033") : sums_hold(&d, o.max_length));
        if (good && !rc && d.n_examples > 1) {
            good = !zl_dataset_split(&d, 0.5, run, &held_out, &err) &&
                   sums_hold(&d, o.max_length) && sums_hold(&held_out, o.max_length);
            zl_dataset_free(&held_out);
        }
        if (!good) {
            fprintf(stderr, "run %llu: %d, %s\n", (unsigned long long)run, rc, err.text);
            fwrite(text, 1, n, stderr);
            return 1;
        }
        loaded += !rc;
        zl_dataset_free(&d);
    }
    printf("%llu files, %llu loaded, the others refused\n", (unsigned long long)runs,
           (unsigned long long)loaded);
    close(fd);
    byte_tokenizer_close(t);
    return 0;
}
