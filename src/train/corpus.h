/*
 * What a run reads before it starts: base model, tokenizer, training and held-out data, and the order in which examples are
 * taken. Read-only afterwards.
 */
#ifndef ZL_TRAIN_CORPUS_H
#define ZL_TRAIN_CORPUS_H

#include "format/adapter.h"
#include "format/dataset.h"
#include "model/model.h"
#include "pipe/packet.h"

struct zl_loaded;

struct zl_corpus {
    struct zl_model model;
    struct zl_tokenizer *tokenizer;
    bool lent; /* model and tokenizer belong to the request's `loaded` */
    struct zl_dataset train, held_out; /* held_out.n_examples == 0: none */
};

struct zl_corpus_request {
    const char *model;
    const struct zl_loaded *loaded; /* open already: lends model and tokenizer and outlives the corpus. NULL: open `model` */
    const char *const *data;
    size_t n_data;
    const char *held_out_file; /* NULL: none */
    double held_out_share;     /* 0: none; of the training examples */
    const char *adapter;       /* NULL: none. A wrong one is an error before any data is waited for */
    struct zl_adapter *into;   /* the adapter is read into this, which is the caller's to free */
    uint64_t max_length, seed;
    uint64_t positions;        /* the longest sequence in use, where that is more than max_length; else 0 */
    bool quiet;                /* no data report */
};

/* Open the model, the adapter and the tokenizer, tokenize the data, hold rows out, print the data report to standard error. Refuses ids that the
 * embedding lacks, warns about rows of zeros among the used ones. On failure *c is closed. */
int zl_corpus_open(struct zl_corpus *c, const struct zl_corpus_request *r, struct zl_error *err);
void zl_corpus_close(struct zl_corpus *c);

/* Fill a packet with micro-batch i of the order: ids, labels, positions, sequences, counts. The slot has room for it. */
void zl_corpus_fill(const struct zl_dataset *d, const struct zl_data_order *o, uint64_t i, const struct zl_packet_layout *l,
                    struct zl_packet *m);

/* The token ids that occur in the data, ascending (malloc'd), and the inverse [vocab] with -1 elsewhere. */
int zl_corpus_vocabulary(const struct zl_dataset *d, uint32_t vocab, int32_t **ids, int64_t *n, int32_t **index,
                         struct zl_error *err);

#endif
