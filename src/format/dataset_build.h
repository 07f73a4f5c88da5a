/*
 * What the parts of the dataset loader share: dataset.c reads files and owns the arrays,
 * dataset_rows.c turns a JSON row into tokens. Private to them.
 */
#ifndef ZL_FORMAT_DATASET_BUILD_H
#define ZL_FORMAT_DATASET_BUILD_H

#include <jansson.h>

#include "format/dataset.h"
#include "format/lines.h"

struct zl_data_builder {
    const struct zl_tokenizer *t;
    const struct zl_data_options *o;
    struct zl_dataset *d;
    uint64_t tokens_capacity, examples_capacity;
    const char *path; /* the file at hand */
    uint32_t file;    /* its index */

    struct zl_ids ids; /* the row at hand */
    uint8_t *trained;  /* parallel to ids, for messages */
    size_t trained_capacity;
    struct zl_chat chat; /* recognised at the first row of messages */
    bool chat_known;
};

/* One row of a JSONL file: adds an example, or counts a drop, or fails naming the place in `at`. */
int zl_data_add_row(struct zl_data_builder *b, const json_t *row, const struct zl_lines *at,
                    struct zl_error *err);

/* Append one id to b->ids. */
int zl_data_push(struct zl_data_builder *b, int32_t id, struct zl_error *err);

/* Encode text behind b->ids; BOS before it where the tokenizer adds one and the text does not bring
 * its own. */
int zl_data_encode_start(struct zl_data_builder *b, const char *text, size_t len, bool bos,
                         struct zl_error *err);

/* EOS behind b->ids unless they end with it (or with an end of turn) already. */
int zl_data_push_eos(struct zl_data_builder *b, struct zl_error *err);

/* Add ids[0..n) as one example, cut to max_length. Labels are trained[] where given, else all from
 * n_prompt on; never the first token. An example without a label left is counted as dropped
 * instead. */
int zl_data_append(struct zl_data_builder *b, const int32_t *ids, const uint8_t *trained, size_t n,
                   size_t n_prompt, uint64_t line, uint64_t text_bytes, struct zl_error *err);

/* Count the row at hand as dropped. */
void zl_data_drop(struct zl_data_builder *b, enum zl_drop reason, uint64_t line);

/* Count a kept example; count all examples of d again (rows and drops stay as they are). */
void zl_data_report_count(struct zl_data_report *r, const struct zl_example *e);
void zl_data_report_recount(struct zl_dataset *d);

/* What the reasons are called in reports: "nothing to train". */
extern const char *const zl_drop_names[ZL_DROP_REASONS];

#endif
