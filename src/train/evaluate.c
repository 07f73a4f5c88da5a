/* Evaluation: see evaluate.h. The loss is the mean over all trained tokens of the data, summed in double in row order. */
#include "train/evaluate.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/progress.h"
#include "format/adapter.h"
#include "kernel/dequant.h"
#include "model/block.h"
#include "model/decoder.h"
#include "pipe/cores.h"
#include "pipe/crew.h"
#include "train/corpus.h"
#include "train/loaded.h"
#include "train/setup.h"

#define MICRO_TOKENS 1024
#define PROMPT_CHUNK 256

struct evaluation {
    const struct zl_eval_options *o;
    struct zl_corpus corpus;
    struct zl_adapter own;            /* read here; not with o->loaded */
    const struct zl_adapter *adapter; /* NULL: none */
    uint64_t examples; /* the first so many */
    int threads;
    struct zl_eval_result *out;
};

static int measure_loss(struct evaluation *e, struct zl_error *err)
{
    struct zl_dataset part = e->corpus.train; /* a view of the first examples; owns nothing */
    part.n_examples = e->examples;
    const uint64_t longest = part.report.longest, micro = longest > MICRO_TOKENS ? longest : MICRO_TOKENS;
    const struct zl_schedule_options all = {.batch_tokens = UINT64_C(1) << 40, .micro_batch_tokens = micro, .epochs = 1};
    const struct zl_model *m = &e->corpus.model;
    struct zl_data_order order;
    struct zl_block block = {0};
    unsigned char *slot = NULL;
    float *x = NULL;
    double sum = 0;
    int rc = zl_data_order_plan(&part, &all, &order, err);
    if (rc)
        return rc;
    const struct zl_block_spec spec = {.n_own = m->config.layers,
                                       .has_loss = true,
                                       .compute = e->o->compute,
                                       .adapter = e->adapter,
                                       .tokens = order.largest_micro_tokens,
                                       .longest = (int64_t)longest};
    const struct zl_packet_layout l = zl_packet_layout(order.largest_micro_tokens, order.largest_micro_examples, 0);
    rc = zl_block_open(&block, m, &spec, e->threads, err);
    if (!rc) {
        slot = aligned_alloc(64, (l.bytes + 63) / 64 * 64);
        x = aligned_alloc(64, ((uint64_t)order.largest_micro_tokens * m->config.d * sizeof *x + 63) / 64 * 64);
        rc = slot && x ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    }
    struct zl_progress progress;
    zl_progress_open(&progress, 2, "evaluating", "batch", order.n_micro, e->o->quiet);
    for (uint64_t i = 0, tokens = 0; !rc && i < order.n_micro; i++) {
        struct zl_packet *msg = (struct zl_packet *)(void *)slot;
        struct zl_loss loss;
        zl_corpus_fill(&part, &order, i, &l, msg);
        const struct zl_tokens tok = {.t = msg->n_tokens,
                                      .positions = zl_packet_at(msg, l.positions),
                                      .n_seqs = (int)msg->n_seqs,
                                      .seqs = zl_packet_at(msg, l.seqs)};
        zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, zl_packet_at(msg, l.ids), tok.t, x);
        zl_block_forward(&block, 0, &tok, x);
        zl_block_loss(&block, 0, &tok, zl_packet_at(msg, l.labels), 0, false, &loss);
        sum += loss.sum;
        e->out->tokens += loss.n;
        e->out->correct += loss.correct;
        tokens += msg->n_tokens;
        zl_progress_update(&progress, i + 1, tokens, e->out->tokens ? sum / (double)e->out->tokens : 0);
        rc = zl_hooks_check(e->o->hooks, err);
    }
    zl_progress_close(&progress);
    e->out->loss = e->out->tokens ? sum / (double)e->out->tokens : 0;
    free(slot);
    free(x);
    zl_block_close(&block);
    zl_data_order_free(&order);
    return rc;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* A text that grows by pieces, held against the wanted one; blanks at either end do not count. */
struct comparison {
    const char *want; /* without blanks at its ends */
    size_t n, at;
    bool begun, differs;
};

static void begin_comparison(struct comparison *c, const char *want, size_t n)
{
    for (; n && is_blank(want[0]); n--)
        want++;
    while (n && is_blank(want[n - 1]))
        n--;
    *c = (struct comparison){.want = want, .n = n};
}

static void compare_piece(struct comparison *c, const char *piece, size_t n)
{
    for (size_t i = 0; i < n && !c->differs; i++) {
        if (is_blank(piece[i]) && (!c->begun || c->at == c->n))
            continue;
        c->begun = true;
        c->differs = c->at == c->n || piece[i] != c->want[c->at];
        c->at++;
    }
}

static int32_t likeliest(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

/* Answer one example greedily and compare with its completion; over as soon as the answer differs. */
static int match_one(struct evaluation *e, struct zl_decoder *d, const struct zl_example *x, struct zl_error *err)
{
    const struct zl_tokenizer *t = e->corpus.tokenizer;
    const int32_t *tokens = e->corpus.train.tokens + x->first;
    uint32_t expected = x->n - x->n_prompt;
    struct comparison c;
    char *want = NULL;
    const char *piece;
    size_t n = 0;
    if (expected && zl_tokenizer_is_end(t, tokens[x->n - 1]))
        expected--;
    struct zl_detokenizer *text = zl_detokenizer_new(t, true);
    int rc = text ? zl_tokenizer_decode(t, tokens + x->n_prompt, expected, true, &want, &n, err)
                  : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (rc)
        goto out;
    begin_comparison(&c, want, n);
    zl_decoder_reset(d);
    const float *logits = zl_decoder_feed(d, tokens, x->n_prompt);
    for (uint64_t i = 0; logits && !c.differs && i < e->o->max_new_tokens && !zl_hooks_stop(e->o->hooks); i++) {
        int32_t id = likeliest(logits, e->corpus.model.config.vocab);
        if (zl_tokenizer_is_end(t, id))
            break;
        piece = zl_detokenizer_push(text, id, &n);
        compare_piece(&c, piece, n);
        logits = zl_decoder_feed(d, &id, 1);
    }
    piece = zl_detokenizer_finish(text, &n);
    compare_piece(&c, piece, n);
    e->out->compared++;
    e->out->matched += !c.differs && c.at == c.n;
out:
    zl_detokenizer_free(text);
    free(want);
    return rc;
}

static int measure_match(struct evaluation *e, struct zl_error *err)
{
    struct zl_decoder d = {0};
    struct zl_crew *crew = NULL;
    int64_t capacity = (int64_t)(e->corpus.train.report.longest + e->o->max_new_tokens);
    int rc = zl_decoder_open(&d, &e->corpus.model, e->adapter, capacity, PROMPT_CHUNK, e->o->compute, e->threads, err);
    if (!rc)
        rc = zl_crew_open(&crew, e->threads, err);
    if (!rc)
        zl_crew_join(crew, &d.block.team);
    struct zl_progress progress;
    zl_progress_open(&progress, 2, "answering", "example", e->examples, e->o->quiet);
    for (uint64_t i = 0, tokens = 0; !rc && i < e->examples; i++) {
        const struct zl_example *x = &e->corpus.train.examples[i];
        if (x->n_prompt == 0 || x->n_prompt >= x->n || x->n_trained != x->n - x->n_prompt)
            continue; /* only a prompt with one completion has one right answer */
        rc = match_one(e, &d, x, err);
        tokens += (uint64_t)d.at; /* of the prompt and of the answer */
        zl_progress_update(&progress, i + 1, tokens, __builtin_nan(""));
        if (!rc)
            rc = zl_hooks_check(e->o->hooks, err);
    }
    zl_progress_close(&progress);
    if (!rc && e->out->compared == 0)
        rc = zl_fail(err, ZL_EUSAGE, "--exact-match needs rows with one prompt and one completion, and the data has none");
    zl_crew_close(crew);
    zl_decoder_close(&d);
    return rc;
}

int zl_eval_run(const struct zl_eval_options *o, struct zl_eval_result *out, struct zl_error *err)
{
    struct evaluation e = {.o = o, .out = out};
    struct zl_cores cores;
    double start = zl_clock_seconds();
    *out = (struct zl_eval_result){0};
    const struct zl_corpus_request r = {.model = o->model,
                                        .loaded = o->loaded,
                                        .data = o->data.v,
                                        .n_data = o->data.n,
                                        .adapter = o->adapter,
                                        .into = &e.own,
                                        .max_length = o->max_length,
                                        .positions = o->max_length + (o->exact_match ? o->max_new_tokens : 0),
                                        .quiet = o->quiet};
    int rc = zl_setup_check_compute(o->compute, err);
    if (rc)
        return rc;
    rc = zl_corpus_open(&e.corpus, &r, err);
    if (!rc)
        rc = zl_setup_check_weights(o->compute, &e.corpus.model, err);
    if (o->loaded)
        e.adapter = zl_loaded_adapter(o->loaded);
    else if (o->adapter)
        e.adapter = &e.own;
    if (!rc)
        rc = zl_cores_detect(&cores, err);
    if (!rc) {
        e.threads = o->threads ? (int)(o->threads < ZL_CORES_MAX ? o->threads : ZL_CORES_MAX) : cores.n;
        e.examples = e.corpus.train.n_examples;
        if (o->limit && o->limit < e.examples)
            e.examples = o->limit;
        out->examples = e.examples;
        rc = measure_loss(&e, err);
    }
    if (!rc && o->exact_match)
        rc = measure_match(&e, err);
    zl_adapter_free(&e.own);
    zl_corpus_close(&e.corpus);
    out->seconds = zl_clock_seconds() - start;
    return rc;
}
