/*
 * A tiny model of the project's own, made in a folder: llama, random weights by a fixed seed, byte-level tokenizer without merges, so that
 * tests of whole runs need no reference data.
 */
#ifndef ZL_TESTS_TINY_H
#define ZL_TESTS_TINY_H

#include <stdbool.h>
#include <stdint.h>

struct tiny {
    char dir[256];      /* removed by tiny_remove */
    char model[300];    /* dir/model */
    char data[300];     /* dir/train.jsonl: prompt/completion rows */
    char held_out[300]; /* dir/held-out.jsonl */
};

/* layers, hidden 32, 4 heads of 8, 2 key/value heads, MLP 48, vocabulary 260. */
void tiny_make(struct tiny *t, uint32_t layers, uint32_t rows);
/* Where the numbers of a row with an '@' in it are not finite, as long as the adapters are on q_proj and v_proj alone. */
void tiny_make_poisoned(struct tiny *t, uint32_t layers, uint32_t rows, bool poisoned);
void tiny_remove(struct tiny *t);

/* A path below the folder, in a static buffer of four turns. */
const char *tiny_path(const struct tiny *t, const char *name);

#endif
