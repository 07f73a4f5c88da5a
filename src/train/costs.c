/* What parts of the model cost: see costs.h. */
#include "train/costs.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "kernel/dequant.h"

#define HANDING_ON 0.001 /* of a forward: what a stage costs whose output was computed before (frozen.h) */

#define USUAL_SERIAL 0.2 /* packing, barriers, shared caches: measured on two cores with micro-batches of 200 tokens */
#define WHOLE_CORE 0.9    /* of the time on a core: below that, other programs were at work */
#define REPEATS 3
#define LAYERS 6 /* enough that their weights do not stay in the caches */
#define LOOK 64  /* micro-batches among which a usual one is looked for */

static double labelled_share(const struct zl_setup *s)
{
    const struct zl_data_report *r = &s->corpus.train.report;
    return r->tokens ? (double)r->trained / (double)r->tokens : 1;
}

static double local_vocabulary_share(const struct zl_setup *s)
{
    return s->n_subset ? (double)s->n_subset / s->corpus.model.config.vocab : 1;
}

void zl_costs_estimate(const struct zl_setup *s, struct zl_costs *c)
{
    const struct zl_config *m = &s->corpus.model.config;
    double layer = 0;
    for (enum zl_role role = 0; role < ZL_LINEARS; role++)
        layer += (double)zl_linear_in(m, role) * zl_linear_out(m, role);
    /* a frozen weight takes one product forward, one backward; the adapters' own gradients are small */
    *c = (struct zl_costs){.layer_forward = layer, .layer_backward = layer, .serial = USUAL_SERIAL, .core_share = 1};
    c->last_readout = 2 * labelled_share(s) * (double)m->vocab * m->d;
    c->local_readout = c->last_readout * local_vocabulary_share(s);
}

/* Best times of forward, loss and backward of the block on the packet, in ns; *share is what other programs left of the calling core. */
static int time_block(const struct zl_setup *s, const struct zl_block_spec *spec, int threads, struct zl_packet *p,
                      const struct zl_packet_layout *l, double best[3], double *share, struct zl_error *err)
{
    const struct zl_model *m = &s->corpus.model;
    struct zl_block b;
    struct zl_loss loss;
    int rc = zl_block_open(&b, m, spec, threads, err);
    if (rc)
        return rc;
    float *x = malloc((size_t)p->n_tokens * m->config.d * sizeof(float));
    if (!x)
        rc = zl_fail(err, ZL_EMEMORY, "out of memory");
    const struct zl_tokens tok = {.t = p->n_tokens,
                                  .positions = zl_packet_at(p, l->positions),
                                  .n_seqs = (int)p->n_seqs,
                                  .seqs = zl_packet_at(p, l->seqs)};
    const uint64_t began = zl_clock_ns(), worked = zl_clock_thread_ns();
    for (int i = 0; !rc && i < REPEATS; i++) {
        zl_dequant_rows(m->embed.type, m->embed.data, m->config.d, zl_packet_at(p, l->ids), p->n_tokens, x);
        const uint64_t start = zl_clock_ns();
        zl_block_forward(&b, 0, &tok, x);
        const uint64_t forward = zl_clock_ns();
        b.loss_end_ns = forward;
        zl_block_loss(&b, 0, &tok, zl_packet_at(p, l->labels), 1e-3f, true, &loss);
        const double t[3] = {(double)(forward - start), (double)(b.loss_end_ns - forward), (double)(zl_clock_ns() - b.loss_end_ns)};
        for (int j = 0; j < 3; j++)
            if (i == 0 || t[j] < best[j])
                best[j] = t[j];
    }
    *share = (double)(zl_clock_thread_ns() - worked) / (double)(zl_clock_ns() - began + 1);
    free(x);
    zl_block_close(&b);
    return rc;
}

static double mean_tokens(const struct zl_data_order *o)
{
    double tokens = 0;
    for (uint64_t i = 0; i < o->n_micro; i++)
        tokens += o->micro[i].n_tokens;
    return o->n_micro ? tokens / (double)o->n_micro : 1;
}

/* Of the first ones, that with labels whose size is nearest to the mean. */
static uint64_t usual_micro(const struct zl_data_order *o)
{
    const double mean = mean_tokens(o);
    uint64_t best = 0;
    double off = DBL_MAX;
    for (uint64_t i = 0; i < o->n_micro && i < LOOK; i++) {
        const double d = fabs(o->micro[i].n_tokens - mean);
        if (o->micro[i].n_trained && d < off) {
            best = i;
            off = d;
        }
    }
    return best;
}

int zl_costs_measure(const struct zl_setup *s, struct zl_costs *c, struct zl_error *err)
{
    const uint32_t layers = s->corpus.model.config.layers, n = layers < LAYERS ? layers : LAYERS;
    const struct zl_pipeline_options *o = &s->pipeline;
    const struct zl_packet_layout l = zl_packet_layout((uint64_t)o->tokens, (uint64_t)o->seqs, 0);
    const struct zl_block_spec spec = {.first = layers - n, .n_own = n, .train = true, .has_loss = true, .recompute = o->recompute, .halves = o->halves,
                                       .compute = o->compute, .lora = o->lora, .adapter = o->adapter, .seed = o->seed,
                                       .tokens = o->tokens, .keep_tokens = o->keep_tokens, .longest = o->longest};
    struct zl_packet *p = l.bytes < SIZE_MAX ? aligned_alloc(64, (size_t)(l.bytes + 63) / 64 * 64) : NULL;
    if (!p)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    const uint64_t at = usual_micro(&s->order);
    *p = (struct zl_packet){.kind = ZL_TRAIN};
    zl_corpus_fill(&s->corpus.train, &s->order, at, &l, p);
    int threads = 0;
    for (uint32_t w = 0; w < s->places.n_workers; w++)
        threads += s->groups[w].n;
    double one[3] = {0}, all[3] = {0}, share = 1, waiting;
    int rc = time_block(s, &spec, 1, p, &l, one, &share, err);
    if (!rc)
        rc = time_block(s, &spec, threads, p, &l, all, &waiting, err);
    const double tokens = p->n_tokens, labelled = (double)s->order.micro[at].n_trained;
    free(p);
    if (rc)
        return rc;
    const bool busy = share < WHOLE_CORE;
    for (int i = 0; i < 3; i++)
        one[i] *= busy ? share : 1;
    *c = (struct zl_costs){
        .layer_forward = one[0] / n / tokens, .layer_backward = one[2] / n / tokens, .serial = USUAL_SERIAL, .core_share = busy ? share : 1};
    c->last_readout = labelled > 0 ? one[1] / labelled * labelled_share(s) : 0;
    c->local_readout = c->last_readout * local_vocabulary_share(s);
    if (threads > 1 && !busy) { /* how threads share the work shows only where each has a core */
        const double ratio = (all[0] + all[1] + all[2]) / (one[0] + one[1] + one[2]);
        c->serial = (threads * ratio - 1) / (threads - 1);
        c->serial = c->serial < 0 ? 0 : c->serial > 1 ? 1 : c->serial;
    }
    return 0;
}

static double readout_of(const struct zl_costs *c, const struct zl_setup *s, uint32_t k)
{
    if (k + 1 == s->partition.n)
        return c->last_readout;
    return s->schedule.local && !s->partition.cut[k].frozen ? c->local_readout : 0;
}

double zl_costs_of_stage(const struct zl_costs *c, const struct zl_setup *s, uint32_t k)
{
    const struct zl_cut *cut = &s->partition.cut[k];
    const double layers = (double)cut->n_own + cut->n_shadow;
    if (k < s->n_cached)
        return HANDING_ON * layers * c->layer_forward;
    return layers * c->layer_forward + (cut->frozen ? 0 : (layers - cut->lead) * c->layer_backward) + readout_of(c, s, k);
}

static uint64_t ns(const struct zl_costs *c, int cores, double work)
{
    return (uint64_t)(work * (c->serial + (1 - c->serial) / cores) + 0.5);
}

int zl_costs_speed(const struct zl_costs *c, const struct zl_setup *s, double *tokens_per_second, struct zl_error *err)
{
    const struct zl_schedule *schedule = &s->schedule;
    const struct zl_data_order *o = &s->order;
    const double tokens = o->n_micro ? mean_tokens(o) : 1;
    const uint64_t steps = 12, micro = o->n_steps ? (o->n_micro + o->n_steps / 2) / o->n_steps : s->pipeline.micro_per_step;
    struct zl_sim_request *r = calloc(1, sizeof *r);
    struct zl_sim_result *out = calloc(1, sizeof *out);
    int rc = r && out ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    for (uint32_t k = 0; !rc && k < s->partition.n; k++) {
        const struct zl_cut *cut = &s->partition.cut[k];
        const int cores = s->groups[s->places.worker_of[k]].n;
        const uint32_t ahead = zl_schedule_ahead(schedule, k, s->partition.n);
        const double backward = cut->frozen ? 0 : ((double)cut->n_own - cut->lead + cut->n_shadow) * c->layer_backward;
        r->worker[k] = s->places.worker_of[k];
        r->frozen[k] = cut->frozen;
        r->ahead[k] = ahead == ZL_AHEAD_STEP ? UINT64_MAX : ahead;
        r->cost[k].forward_ns = ns(c, cores, tokens * cut->n_own * c->layer_forward * (k < s->n_cached ? HANDING_ON : 1));
        r->cost[k].loss_ns = ns(c, cores, tokens * (cut->n_shadow * c->layer_forward + readout_of(c, s, k)));
        r->cost[k].backward_ns = ns(c, cores, tokens * backward);
    }
    if (!rc) {
        r->stages = s->partition.n;
        r->workers = s->places.n_workers;
        r->common = s->places.common;
        r->micro = micro ? micro : 1;
        r->steps = steps;
        r->local = schedule->local;
        r->flush = schedule->flush;
        r->replay = schedule->weights == ZL_WEIGHTS_REPLAYED;
        r->ring_depth = s->pipeline.ring_depth;
        rc = zl_sim_run(r, out, err);
    }
    if (!rc) {
        *tokens_per_second = tokens * (double)(r->micro * steps) / ((double)out->makespan_ns * 1e-9);
        zl_sim_free(out);
    }
    free(r);
    free(out);
    return rc;
}
