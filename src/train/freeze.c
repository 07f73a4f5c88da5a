/* Whether the stage at the front trains: see freeze.h. */
#include "train/freeze.h"

#include "pipe/pipeline.h"

#define SHORTEST 30 /* steps of a run that is worth a probe */
#define KEEPS 0.94  /* share of the fall of the loss that is to be there without the stage; later the others make up for some more */
#define EVAL_STEPS 4
#define WAIT_NS 20000000

static uint64_t probe_steps(uint64_t steps)
{
    const uint64_t n = steps / 10;
    return steps < SHORTEST ? 0 : n > 8 ? 8 : n;
}

/* One way: a pipeline of its own, thrown away afterwards. */
struct way {
    struct zl_setup s;
    struct zl_pipeline l;
    const struct zl_train_options *o;
    double loss[2]; /* sums before and after the steps */
    uint64_t n[2];
};

static void take_reports(struct way *w, int64_t timeout_ns)
{
    struct zl_report r;
    while (zl_pipeline_report(&w->l, timeout_ns, &r))
        if (r.kind == ZL_EVAL && r.stage + 1 == w->l.n && r.step < 2) {
            w->loss[r.step] += r.loss_sum;
            w->n[r.step] += r.n;
        }
}

static int send(struct way *w, const struct zl_packet *as, uint64_t micro, struct zl_error *err)
{
    struct zl_packet *p = NULL;
    int rc;
    while (!(rc = zl_hooks_check(w->o->hooks, err)) && !(p = zl_pipeline_slot(&w->l, WAIT_NS)))
        take_reports(w, 0);
    if (rc)
        return rc;
    *p = *as;
    zl_corpus_fill(&w->s.corpus.train, &w->s.order, micro, &w->l.feed_layout, p);
    zl_pipeline_send(&w->l, p);
    return 0;
}

/* The steps behind the probe's as held-out data. */
static int evaluate(struct way *w, uint64_t steps, uint64_t when, struct zl_error *err)
{
    const struct zl_data_order *o = &w->s.order;
    int rc = 0;
    for (uint64_t i = o->steps[steps].first_micro, end = o->steps[steps + EVAL_STEPS].first_micro; !rc && i < end; i++)
        rc = send(w, &(struct zl_packet){.kind = ZL_EVAL, .step = when}, i, err);
    return rc;
}

static int train(struct way *w, uint64_t steps, struct zl_error *err)
{
    const struct zl_data_order *o = &w->s.order;
    int rc = 0;
    for (uint64_t step = 1; step <= steps; step++) {
        const struct zl_step *s = &o->steps[step - 1];
        for (uint64_t i = 0; !rc && i < s->n_micro; i++)
            rc = send(w, &(struct zl_packet){.kind = ZL_TRAIN, .step = step, .last_of_step = i + 1 == s->n_micro,
                                             .weight = s->n_trained ? (float)(1.0 / (double)s->n_trained) : 0, .lr = (float)w->o->lr},
                      s->first_micro + i, err);
    }
    return rc;
}

static int run(struct way *w, const struct zl_setup *s, const struct zl_train_options *o, uint64_t steps, struct zl_error *err)
{
    char note[256] = "";
    *w = (struct way){.o = o};
    int rc = zl_setup_variant(&w->s, s, o, err);
    if (!rc)
        rc = zl_pipeline_open(&w->l, &w->s.corpus.model, &w->s.partition, &w->s.pipeline, note, err);
    if (!rc)
        rc = zl_pipeline_start(&w->l, err);
    if (!rc)
        rc = evaluate(w, steps, 0, err);
    if (!rc)
        rc = train(w, steps, err);
    if (!rc)
        rc = evaluate(w, steps, 1, err);
    if (!rc || rc == ZL_ESTOPPED) {
        zl_pipeline_finish(&w->l);
        while (!zl_pipeline_done(&w->l))
            take_reports(w, WAIT_NS);
        zl_pipeline_join(&w->l);
    }
    zl_pipeline_close(&w->l);
    zl_setup_variant_free(&w->s);
    return rc;
}

int zl_freeze_probe(const struct zl_setup *s, const struct zl_train_options *o, struct zl_freeze_probe *p, struct zl_error *err)
{
    static uint64_t front[] = {0};
    struct zl_train_options as = *o;
    struct way w;
    *p = (struct zl_freeze_probe){.steps = probe_steps(s->order.n_steps)};
    if (!p->steps)
        return 0;
    as.cache_frozen = false;
    as.anchor = ZL_OFF;
    double after[2];
    for (int frozen = 0; frozen < 2; frozen++) {
        as.freeze = (struct zl_numbers){front, (size_t)frozen};
        int rc = run(&w, s, &as, p->steps, err);
        if (rc)
            return rc;
        p->before = w.n[0] ? w.loss[0] / (double)w.n[0] : 0;
        after[frozen] = w.n[1] ? w.loss[1] / (double)w.n[1] : 0;
    }
    p->trained = after[0];
    p->frozen = after[1];
    p->freeze = p->before - p->frozen >= KEEPS * (p->before - p->trained);
    return 0;
}
