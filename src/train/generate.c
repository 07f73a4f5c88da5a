/*
 * Generation: see generate.h. The answer is handed out in whole characters; with stop texts, what could still become one of them is
 * held back until it is decided.
 */
#include "train/generate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "format/chat.h"
#include "model/decoder.h"
#include "pipe/cores.h"
#include "pipe/crew.h"
#include "train/loaded.h"
#include "train/sample.h"
#include "train/setup.h"

#define PROMPT_CHUNK 256

struct generation {
    const struct zl_generate_options *o;
    bool (*emit)(void *context, const char *text, size_t n);
    void *context;
    char *held; /* text not yet handed out: a possible beginning of a stop text */
    size_t n_held, capacity;
    bool stopped;
};

/* Hand out the first n bytes of what is held. */
static bool hand_out(struct generation *g, size_t n)
{
    bool go_on = n == 0 || g->emit(g->context, g->held, n);
    memmove(g->held, g->held + n, g->n_held - n);
    g->n_held -= n;
    return go_on;
}

/* Where the first stop text begins in what is held; or, without one, where the longest possible beginning of one does. */
static size_t safe_length(const struct generation *g, bool *found)
{
    size_t safe = g->n_held;
    *found = false;
    for (size_t i = 0; i < g->n_held && !*found; i++)
        for (size_t s = 0; s < g->o->stop.n; s++) {
            size_t len = strlen(g->o->stop.v[s]), left = g->n_held - i;
            if (len == 0 || memcmp(g->held + i, g->o->stop.v[s], left < len ? left : len) != 0)
                continue;
            if (left >= len)
                *found = true;
            if (i < safe || *found)
                safe = i;
            if (*found)
                break;
        }
    return safe;
}

/* New text of the answer. false: stop. */
static bool push(struct generation *g, const char *text, size_t n)
{
    if (n == 0)
        return true;
    if (n > g->capacity - g->n_held) {
        char *bigger = realloc(g->held, g->n_held + n + 4096);
        if (!bigger)
            return false;
        g->held = bigger;
        g->capacity = g->n_held + n + 4096;
    }
    memcpy(g->held + g->n_held, text, n);
    g->n_held += n;
    size_t safe = safe_length(g, &g->stopped);
    bool go_on = hand_out(g, safe);
    if (g->stopped)
        g->n_held = 0;
    return go_on && !g->stopped;
}

static int encode_prompt(const struct zl_generate_options *o, const char *model, const struct zl_tokenizer *t, struct zl_ids *ids,
                         struct zl_error *err)
{
    if (!o->chat)
        return zl_tokenizer_encode(t, o->prompt, strlen(o->prompt), ZL_ENCODE_SPECIAL, ids, err);
    struct zl_chat chat = {0};
    struct zl_message turns[2];
    size_t n = 0;
    if (o->system)
        turns[n++] = (struct zl_message){"system", o->system, strlen(o->system)};
    turns[n++] = (struct zl_message){"user", o->prompt, strlen(o->prompt)};
    int rc = zl_chat_recognize(t, &chat, err);
    if (!rc && chat.kind == ZL_CHAT_NONE)
        rc = zl_fail(err, ZL_EUSAGE, "%s has no chat template; leave off --chat", model);
    if (!rc)
        rc = zl_chat_render(&chat, t, turns, n, true, ids, NULL, NULL, err);
    zl_chat_free(&chat);
    return rc;
}

/* Logits behind the prompt; who wants to stop is asked between chunks, and then they mean nothing. */
static const float *read_prompt(struct zl_decoder *d, const struct zl_ids *prompt, const struct zl_hooks *hooks)
{
    const float *logits = NULL;
    for (size_t i = 0, n; i < prompt->n && !zl_hooks_stop(hooks); i += n) {
        n = prompt->n - i < PROMPT_CHUNK ? prompt->n - i : PROMPT_CHUNK;
        logits = zl_decoder_feed(d, prompt->id + i, (int64_t)n);
    }
    return logits;
}

static int answer(struct generation *g, struct zl_decoder *d, const struct zl_tokenizer *t, const struct zl_ids *prompt,
                  struct zl_generate_result *out, struct zl_error *err)
{
    const struct zl_generate_options *o = g->o;
    const uint32_t vocab = (uint32_t)zl_tokenizer_size(t); /* rows behind it were never trained */
    struct zl_detokenizer *text = zl_detokenizer_new(t, true);
    struct zl_candidate *work = malloc(d->model->config.vocab * sizeof *work);
    int rc = text && work ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    double start = zl_clock_seconds();
    const float *logits = rc ? NULL : read_prompt(d, prompt, o->hooks);
    out->prompt_tokens = prompt->n;
    out->prompt_seconds = zl_clock_seconds() - start;
    out->end = ZL_GENERATE_LENGTH;
    start = zl_clock_seconds();
    bool go_on = true;
    size_t n = 0;
    const char *piece;
    while (logits && go_on && out->new_tokens < o->max_new_tokens && !zl_hooks_stop(o->hooks)) {
        int32_t id = zl_sample(logits, vocab, o->temperature, o->top_p, o->seed, out->new_tokens, work);
        if (zl_tokenizer_is_end(t, id)) {
            out->end = ZL_GENERATE_EOS;
            break;
        }
        out->new_tokens++;
        piece = zl_detokenizer_push(text, id, &n);
        go_on = push(g, piece, n);
        if (go_on && out->new_tokens < o->max_new_tokens)
            logits = zl_decoder_feed(d, &id, 1);
    }
    if (go_on && text) {
        piece = zl_detokenizer_finish(text, &n);
        if (push(g, piece, n))
            hand_out(g, g->n_held);
    }
    if (g->stopped)
        out->end = ZL_GENERATE_STOP;
    else if (!go_on)
        out->end = ZL_GENERATE_REFUSED;
    out->new_seconds = zl_clock_seconds() - start;
    zl_detokenizer_free(text);
    free(work);
    return rc;
}

/* The prompt's length in tokens is known only with the tokenizer; no token is shorter than a byte, templates add some. */
static uint64_t positions_for(const struct zl_generate_options *o)
{
    return strlen(o->prompt) + (o->system ? strlen(o->system) : 0) + 512 + o->max_new_tokens;
}

static int generate(struct generation *g, const struct zl_loaded *l, struct zl_generate_result *out, struct zl_error *err)
{
    const struct zl_generate_options *o = g->o;
    struct zl_decoder d = {0};
    struct zl_crew *crew = NULL;
    struct zl_ids prompt = {0};
    struct zl_cores cores;
    int rc = zl_setup_check_weights(o->compute, &l->model, err);
    if (!rc)
        rc = encode_prompt(o, l->model.path, l->tokenizer, &prompt, err);
    if (!rc && prompt.n == 0)
        rc = zl_fail(err, ZL_EUSAGE, "the prompt is empty");
    if (!rc && (prompt.n > l->model.positions || o->max_new_tokens > l->model.positions - prompt.n))
        rc = zl_fail(err, ZL_EUSAGE, "the prompt's %zu tokens and %llu new ones are more than the %llu positions that were asked for",
                     prompt.n, (unsigned long long)o->max_new_tokens, (unsigned long long)l->model.positions);
    if (!rc)
        rc = zl_cores_detect(&cores, err);
    if (!rc) {
        int threads = o->threads ? (int)(o->threads < ZL_CORES_MAX ? o->threads : ZL_CORES_MAX) : cores.n;
        rc = zl_decoder_open(&d, &l->model, zl_loaded_adapter(l), (int64_t)(prompt.n + o->max_new_tokens), PROMPT_CHUNK,
                             o->compute, threads, err);
        if (!rc)
            rc = zl_crew_open(&crew, threads, err);
    }
    if (!rc) {
        zl_crew_join(crew, &d.block.team);
        rc = answer(g, &d, l->tokenizer, &prompt, out, err);
    }
    if (!rc)
        rc = zl_hooks_check(o->hooks, err);
    zl_crew_close(crew);
    zl_decoder_close(&d);
    zl_ids_free(&prompt);
    return rc;
}

int zl_generate_run(const struct zl_generate_options *o, bool (*emit)(void *context, const char *text, size_t n), void *context,
                    struct zl_generate_result *out, struct zl_error *err)
{
    struct generation g = {.o = o, .emit = emit, .context = context};
    struct zl_loaded own;
    *out = (struct zl_generate_result){0};
    int rc = zl_setup_check_compute(o->compute, err);
    if (!rc && !o->loaded)
        rc = zl_loaded_open(&own, o->model, o->adapter, positions_for(o), err);
    if (rc)
        return rc;
    rc = generate(&g, o->loaded ? o->loaded : &own, out, err);
    if (!o->loaded)
        zl_loaded_close(&own);
    free(g.held);
    return rc;
}
