/*
 * Training data: JSONL rows {text}, {prompt, completion}, {messages}, or plain text files, tokenized once into one packed array.
 * An example is a run of tokens; trained[i] says that token i is a label (it is predicted from the tokens before it in the
 * same example; the first token of an example never is). Examples are whole: packing puts several into a micro-batch without padding.
 */
#ifndef ZL_FORMAT_DATASET_H
#define ZL_FORMAT_DATASET_H

#include <stdio.h>

#include "format/chat.h"
#include "format/tokenizer.h"

struct zl_example {
    uint64_t first;    /* index into tokens */
    uint32_t n;        /* tokens, >= 2 */
    uint32_t n_trained;
    uint32_t n_prompt; /* leading tokens before the first trained one */
    uint32_t file;     /* index into files */
    uint64_t line;     /* 1-based line where the row starts (0 for plain text windows) */
    uint32_t text_bytes; /* UTF-8 bytes of its texts before any cut (a window: its share of the file's, by tokens) */
    bool cut;            /* shortened to max_length */
};

/* Examples lie in `tokens` one behind the other, in row order. */

enum zl_drop { /* why a row was not used as it is */
    ZL_DROP_EMPTY,       /* nothing trained: empty completion or text, no assistant turn */
    ZL_DROP_PROMPT_LONG, /* the prompt alone fills max_length */
    ZL_DROP_SHORT,       /* fewer than two tokens */
    ZL_DROP_REASONS
};

enum { ZL_DATA_LINES = 8 }; /* how many places of each kind a report remembers */

struct zl_data_report {
    uint64_t rows, kept, cut; /* rows = kept + dropped; cut: kept, but shortened to max_length */
    uint64_t dropped[ZL_DROP_REASONS];
    uint64_t first_lines[ZL_DROP_REASONS][ZL_DATA_LINES]; /* line numbers of the first of each */
    uint32_t first_files[ZL_DROP_REASONS][ZL_DATA_LINES]; /* and the files they are in */
    uint64_t cut_lines[ZL_DATA_LINES];
    uint32_t cut_files[ZL_DATA_LINES];
    uint64_t tokens, trained; /* of the kept examples */
    uint64_t text_bytes;      /* of the kept examples */
    uint32_t longest;         /* tokens */
    uint32_t n_files;
    bool no_eos; /* the tokenizer names no EOS: rows that should end with one do not */
};

struct zl_data_options {
    uint32_t max_length; /* tokens; longer rows are cut at the end, plain text is cut into windows of it */
    bool add_bos_eos;    /* {text} rows and plain text: see the .c file for the rule used */
};

struct zl_dataset {
    int32_t *tokens;
    uint8_t *trained;
    uint64_t n_tokens;
    struct zl_example *examples;
    uint64_t n_examples;
    char **files;
    uint32_t n_files;
    struct zl_data_report report;
};

/* Load files (JSONL by content: first non-blank byte `{`; otherwise plain text; a JSON array gets a hint, a .jsonl or .json file with
 * other content is an error). A row that is not valid is an error with file, line and byte; rows that cannot train are dropped and
 * counted. Nothing left to train on is ZL_EINPUT with the counts.
 * A row is read by the first of these that it has (null counts as absent, other keys are ignored): messages; prompt and completion;
 * text. Prompt and completion are tokenized apart and joined, EOS appended to the completion (a label). */
int zl_dataset_load(const char *const *paths, size_t n_paths, const struct zl_tokenizer *t,
                    const struct zl_data_options *o, struct zl_dataset *out, struct zl_error *err);
void zl_dataset_free(struct zl_dataset *d);

/* Move a share of the examples (chosen by seed, at least 1, at most all but 1) from `from` to `held_out`. Row order is kept. The
 * dropped rows stay in the report of `from`. ZL_EUSAGE unless 0 < share < 1; on failure `from` is as it was. */
int zl_dataset_split(struct zl_dataset *from, double share, uint64_t seed, struct zl_dataset *held_out, struct zl_error *err);

/* The report as people read it, to f, with the name of the data before it: a few lines. */
void zl_data_report_print(const struct zl_data_report *r, const char *title, FILE *f);

/* Example i as text, token borders and trained tokens marked (by colour or by brackets), control bytes made visible. */
void zl_data_print_example(const struct zl_dataset *d, uint64_t i, const struct zl_tokenizer *t, bool color, FILE *f);

/* The order of training as a function of a number. Position p of the endless stream of examples is example
 * permutation(seed, epoch = p / n)[p % n]. Steps and micro-batches are runs of positions, planned here for the whole run:
 * a step takes examples while its tokens stay <= batch_tokens (at least one), a micro-batch while <= micro_batch_tokens. */
struct zl_micro_batch {
    uint64_t first, n;   /* positions in the stream */
    uint32_t n_tokens, n_trained;
};
struct zl_step {
    uint64_t first_micro, n_micro; /* into micro */
    uint64_t n_tokens, n_trained;  /* of the whole step: the losses are means over n_trained */
};
struct zl_schedule_options {
    uint64_t seed, batch_tokens, micro_batch_tokens;
    uint64_t steps;  /* 0: by epochs */
    double epochs;   /* used when steps is 0; a step may hold examples of two epochs */
    bool shuffle;    /* false: row order, for evaluation */
};
struct zl_data_order {
    struct zl_step *steps;
    uint64_t n_steps;
    struct zl_micro_batch *micro;
    uint64_t n_micro;
    uint64_t n_examples, seed;
    bool shuffle;
    uint32_t largest_micro_tokens;  /* what buffers must hold */
    uint32_t largest_micro_examples;
};
/* A pure function of the examples' sizes and the options. Micro-batches never cross a step; an example longer than
 * micro_batch_tokens is a micro-batch of its own, one longer than batch_tokens a step of its own. */
int zl_data_order_plan(const struct zl_dataset *d, const struct zl_schedule_options *o, struct zl_data_order *out,
                       struct zl_error *err);
void zl_data_order_free(struct zl_data_order *o);
uint64_t zl_data_order_example(const struct zl_data_order *o, uint64_t position); /* index into examples */

#endif
