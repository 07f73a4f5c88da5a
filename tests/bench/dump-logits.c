/*
 * For peft-logits.py: the token ids and the logits behind the last token of the first examples of a data file, with an adapter.
 *     dump-logits MODEL ADAPTER|- DATA COUNT > FILE
 * FILE, native byte order: for each example int32 n, int32 ids[n], int32 vocab, float32 logits[vocab].
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/decoder.h"
#include "train/adapter.h"
#include "train/corpus.h"

int main(int argc, char **argv)
{
    struct zl_error err = {0};
    struct zl_corpus c = {0};
    struct zl_adapter a = {0};
    struct zl_decoder d = {0};
    if (argc != 5) {
        fprintf(stderr, "usage: dump-logits MODEL ADAPTER|- DATA COUNT\n");
        return 2;
    }
    const char *data[1] = {argv[3]};
    const struct zl_corpus_request r = {.model = argv[1], .data = data, .n_data = 1, .max_length = 512, .quiet = true};
    const bool adapted = strcmp(argv[2], "-") != 0;
    int rc = zl_corpus_open(&c, &r, &err);
    if (!rc && adapted)
        rc = zl_adapter_load(argv[2], &c.model, &a, &err);
    if (!rc)
        rc = zl_decoder_open(&d, &c.model, adapted ? &a : NULL, 512, 512, ZL_COMPUTE_F32, 1, &err);
    const uint64_t count = strtoull(argv[4], NULL, 10);
    const int32_t vocab = rc ? 0 : (int32_t)c.model.config.vocab;
    for (uint64_t i = 0; !rc && i < count && i < c.train.n_examples; i++) {
        const struct zl_example *e = &c.train.examples[i];
        const int32_t *ids = c.train.tokens + e->first, n = (int32_t)e->n;
        zl_decoder_reset(&d);
        const float *logits = zl_decoder_feed(&d, ids, n);
        fwrite(&n, 4, 1, stdout);
        fwrite(ids, 4, (size_t)n, stdout);
        fwrite(&vocab, 4, 1, stdout);
        fwrite(logits, 4, (size_t)vocab, stdout);
    }
    if (rc)
        fprintf(stderr, "dump-logits: %s\n", err.text);
    zl_decoder_close(&d);
    zl_adapter_free(&a);
    zl_corpus_close(&c);
    return rc ? 1 : 0;
}
