/*
 * libzerolock: fine-tune language models on the cores of this machine, measure them, and generate text. See zerolock(3) for an example.
 *
 * Conventions
 * - Functions return 0 (or a count) on success and a negative enum zerolock_code on failure. A failure fills the caller's
 *   struct zerolock_error, which may be NULL, with one sentence that names the file, the place in it, what was found and what was expected.
 * - Options are pairs of name and value, ended by a pair whose name is NULL; NULL stands for none. Names, values, ranges and defaults are
 *   those of the program's commands (zerolock-train(1), zerolock-eval(1), zerolock-generate(1)) without the dashes:
 *   {"schedule", "zerolock"}, {"lr", "3e-3"}. A flag's value is NULL, "true" or "false". `help`, `quiet` and `json` are the
 *   program's alone.
 * - Strings are UTF-8. The caller keeps what it passes in; it is not used after the call. The library gives nothing to free but
 *   struct zerolock_model.
 *
 * What it does to its process
 * - It prints nothing and installs no signal handler. What the program would say as notes and warnings goes to zerolock_messages().
 * - It starts threads: OpenMP's teams, which stay, and those of a training run, which end with it. They are pinned to cores of the calling
 *   thread's affinity mask; the calling thread is not. OMP_* variables of the environment count, unlike in the program.
 * - The first computation initialises BLIS and sets BLIS_ARCH_TYPE in the environment unless it is set. A training run holds a
 *   POSIX shared-memory segment while it lasts.
 * - A model's file is mapped while it is open. A file that is cut short under it raises SIGBUS.
 * - Numbers are read and written the same in every locale.
 *
 * Threads
 * Different threads may call different functions at the same time, also on one model, which does not change after opening. One training
 * run at a time: a second one fails with ZEROLOCK_EUSAGE. Callbacks are called by the calling thread, within the call.
 */
#ifndef ZEROLOCK_H
#define ZEROLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined __GNUC__
#define ZEROLOCK_API __attribute__((visibility("default")))
#else
#define ZEROLOCK_API
#endif

/* "0.1.0" */
ZEROLOCK_API const char *zerolock_version(void);

enum zerolock_code {
    ZEROLOCK_OK = 0,
    ZEROLOCK_EUSAGE = -1,  /* options or arguments do not fit */
    ZEROLOCK_EINPUT = -2,  /* a file or a row is not what it should be */
    ZEROLOCK_ESYSTEM = -3, /* the system refused: open, map, write, shared memory */
    ZEROLOCK_EMEMORY = -4, /* it does not fit in memory */
    ZEROLOCK_ESTOPPED = -5 /* a callback asked to stop */
};

/* Filled by a call that fails; emptied by one that does not. */
struct zerolock_error {
    int code;        /* enum zerolock_code */
    char text[1024]; /* one sentence, no newline; "" without an error */
};

struct zerolock_option {
    const char *name, *value;
};

/* From now on pass the notes and warnings of this thread's calls to `say`; NULL, as at the start of a thread: drop them. `say` must not
 * call the library. */
ZEROLOCK_API void zerolock_messages(void (*say)(void *context, int is_warning, const char *text), void *context);

/* ---- models ---- */

/* A base model with its tokenizer and, perhaps, an adapter, open for reading. */
struct zerolock_model;

/* Open a Hugging Face folder or a GGUF file. `adapter`: a run's folder or a PEFT folder, or NULL. `positions`: the longest sequence in
 * tokens (prompt and answer together, or an example) that it will be used for; 0: 4096. Each costs a few hundred bytes. The weights
 * stay in the file, mapped. On success *out belongs to the caller, who closes it; on failure it is NULL. */
ZEROLOCK_API int zerolock_open(const char *path, const char *adapter, uint64_t positions, struct zerolock_model **out,
                               struct zerolock_error *err);

/* No call may be using the model. NULL is fine. */
ZEROLOCK_API void zerolock_close(struct zerolock_model *model);

/* ---- tokens ---- */

enum {
    ZEROLOCK_ADD_SPECIAL = 1, /* also what the tokenizer puts around a text, such as the beginning-of-sequence token */
    ZEROLOCK_PLAIN = 2        /* "<s>" and the like in the text are text, not special tokens */
};

/* Token ids of text[0..length). Returns how many there are and stores the first `capacity` of them in ids[], which may be NULL when
 * capacity is 0. Text that is no UTF-8 is ZEROLOCK_EINPUT. */
ZEROLOCK_API int64_t zerolock_tokenize(const struct zerolock_model *model, const char *text, size_t length, unsigned flags,
                                       int32_t *ids, size_t capacity, struct zerolock_error *err);

/* Text of ids[0..n). Returns its bytes and stores as many as fit into `capacity` - 1, and a NUL behind them. Bytes that are no
 * UTF-8 become U+FFFD. skip_special: special tokens are left out. An id that the vocabulary does not have is ZEROLOCK_EINPUT. */
ZEROLOCK_API int64_t zerolock_detokenize(const struct zerolock_model *model, const int32_t *ids, size_t n, int skip_special,
                                         char *text, size_t capacity, struct zerolock_error *err);

/* ---- evaluation ---- */

struct zerolock_eval {
    double loss;     /* mean over the trained tokens, natural logarithm; exp(loss) is the perplexity */
    uint64_t tokens; /* trained tokens: what the mean is over */
    uint64_t correct; /* of those, the ones that the model found likeliest */
    uint64_t examples;
    uint64_t matched, compared; /* with exact-match: answers equal to their completion, of so many; else 0 */
    double seconds;
};

/* Measure the model on JSONL or text files, data[0..n_data). Options of zerolock-eval(1); `adapter` is zerolock_open()'s. `max-length` is
 * by default 1024 or the model's positions if these are fewer; with `exact-match`, `max-length` and `max-new-tokens` together must
 * not exceed them. */
ZEROLOCK_API int zerolock_eval(const struct zerolock_model *model, const char *const *data, size_t n_data,
                               const struct zerolock_option *options, struct zerolock_eval *out, struct zerolock_error *err);

/* ---- generation ---- */

enum zerolock_end {
    ZEROLOCK_END_MODEL,  /* the model ended it */
    ZEROLOCK_END_STOP,   /* a `stop` text came */
    ZEROLOCK_END_LENGTH, /* after max-new-tokens */
    ZEROLOCK_END_CALLER  /* the callback stopped it */
};

struct zerolock_generation {
    uint64_t prompt_tokens, new_tokens;
    double prompt_seconds, new_seconds;
    enum zerolock_end end;
};

/* Continue `prompt`. `text` gets the continuation in pieces of whole characters (n bytes, no NUL behind them), as it comes; a value other
 * than 0 stops, which is no error. Options of zerolock-generate(1); `adapter` is zerolock_open()'s. Prompt and max-new-tokens
 * together must not exceed the model's positions. `out` may be NULL. */
ZEROLOCK_API int zerolock_generate(const struct zerolock_model *model, const char *prompt, const struct zerolock_option *options,
                                   int (*text)(void *context, const char *piece, size_t n), void *context,
                                   struct zerolock_generation *out, struct zerolock_error *err);

/* ---- training ---- */

struct zerolock_progress {
    uint64_t step, steps; /* steps done, from 1; steps of the run */
    double loss;          /* the model's own on the step's trained tokens, before the step's update */
    double tokens_per_second; /* of the step */
};

/* Train an adapter for the model at `model` on data[0..n_data) into the folder that the option `output` names (which is required); see
 * zerolock-train(1) for the options and for what the folder holds afterwards. `progress`, which may be NULL, is called after each step;
 * a value other than 0 ends the run after the micro-batches that are on their way: the adapter is written as it is, and the result
 * is ZEROLOCK_ESTOPPED. Everything is read, checked and allocated before the first step, so what does not fit fails early. */
ZEROLOCK_API int zerolock_train(const char *model, const char *const *data, size_t n_data, const struct zerolock_option *options,
                                int (*progress)(void *context, const struct zerolock_progress *now), void *context,
                                struct zerolock_error *err);

#ifdef __cplusplus
}
#endif

#endif
