/*
 * A whole training step: the pipeline of `zerolock train --schedule bp` on micro-batches of random tokens, all of them labelled but
 * the last of a sequence. One micro-batch with its update goes ahead, so that memory is there and weights are mapped; then whole
 * steps are measured, from the first micro-batch sent to the last report. Each kernel's time is booked by the stage's thread; what is left of the
 * measured time is the rest: embedding, residuals, copying, waiting.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/rng.h"
#include "bench/blocks.h"
#include "bench/flops.h"
#include "bench/measure.h"
#include "bench/random_model.h"
#include "pipe/pipeline.h"

#define WAIT_NS 20000000
#define LEAST_SECONDS 8.0

struct trainer {
    struct zl_bench *b;
    struct zl_model model;
    struct zl_lora_spec lora;
    struct zl_pipeline pipeline;
    struct zl_profile profile;
    int64_t tokens, length; /* of a micro-batch, of a sequence */
    uint64_t sent;          /* micro-batches */
    uint64_t step;
    struct zl_work_done done;
    uint64_t pss, private_bytes;
};

/* A file that has no name any more once it is open. */
static int open_random(struct trainer *t, struct zl_bench_step *r)
{
    const struct zl_bench_options *o = t->b->o;
    const struct zl_shape *shape = &zl_shapes[o->tinyllama ? ZL_SHAPE_TINYLLAMA : ZL_SHAPE_SMOLLM2];
    const char *tmp = getenv("TMPDIR");
    enum zl_type type = ZL_Q4_1;
    char path[512];
    if (!zl_type_find(o->type, &type))
        return zl_fail(t->b->err, ZL_EUSAGE, "there is no weight type '%s'", o->type);
    snprintf(path, sizeof path, "%s/zerolock-bench-XXXXXX", tmp && strlen(tmp) < 400 ? tmp : "/tmp");
    int fd = mkstemp(path);
    if (fd < 0)
        return zl_fail_errno(t->b->err, ZL_ESYSTEM, "%s", path);
    close(fd);
    zl_note("writing a %s model with random %s weights", shape->name, o->type);
    int rc = zl_random_model_write(path, shape, type, NULL, t->b->err);
    if (!rc)
        rc = zl_model_open(path, (uint64_t)t->length, &t->model, t->b->err);
    unlink(path);
    *r = (struct zl_bench_step){.model = shape->name, .random = true, .type = o->type};
    return rc;
}

static int open_pipeline(struct trainer *t)
{
    struct zl_bench *b = t->b;
    const struct zl_partition_request whole = {.layers = t->model.config.layers, .stages = 1, .readout = ZL_READOUT_LENS};
    struct zl_partition partition;
    const float *no_map[1] = {NULL};
    const uint32_t only = 0;
    char note[256] = "";
    if (zl_lora_targets("all", &t->lora.targets, b->err))
        return ZL_EUSAGE;
    t->lora.rank = (uint32_t)b->o->rank;
    t->lora.alpha = 16;
    const struct zl_pipeline_options o = {.lora = &t->lora,
                                          .compute = b->o->compute,
                                          .map_a = no_map,
                                          .map_b = no_map,
                                          .tokens = t->tokens,
                                          .seqs = (t->tokens + t->length - 1) / t->length,
                                          .longest = t->length,
                                          .keep_tokens = t->tokens,
                                          .ring_depth = 4,
                                          .optimizer = {.beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .clip = 1},
                                          .schedule = &zl_schedules[ZL_SCHEDULE_BP],
                                          .n_workers = 1,
                                          .worker_of = &only,
                                          .groups = &b->group};
    int rc = zl_partition_make(&whole, &partition, b->err);
    if (!rc)
        rc = zl_pipeline_open(&t->pipeline, &t->model, &partition, &o, note, b->err);
    if (rc)
        return rc;
    t->pipeline.stage[0].block.team.profile = &t->profile;
    return zl_pipeline_start(&t->pipeline, b->err);
}

/* Sequences of the asked length, the last one shorter where it must be. */
static void fill(struct trainer *t, struct zl_packet *m, bool last, uint64_t micro_a_step)
{
    const struct zl_packet_layout *l = &t->pipeline.feed_layout;
    int32_t *ids = zl_packet_at(m, l->ids), *labels = zl_packet_at(m, l->labels), *positions = zl_packet_at(m, l->positions);
    struct zl_attn_seq *seqs = zl_packet_at(m, l->seqs);
    const uint64_t vocab = t->model.config.vocab;
    uint64_t labelled = 0;
    *m = (struct zl_packet){.kind = ZL_TRAIN, .step = t->step, .last_of_step = last, .micro = t->sent, .lr = 1e-4f};
    for (int64_t i = 0; i < t->tokens; i++)
        ids[i] = (int32_t)(zl_random_u64(1, ZL_STREAM_TEST, (uint32_t)t->sent, (uint64_t)i) % vocab);
    for (int64_t at = 0; at < t->tokens; at += t->length) {
        const int64_t n = t->tokens - at < t->length ? t->tokens - at : t->length;
        seqs[m->n_seqs++] = (struct zl_attn_seq){at, n, at, n};
        for (int64_t i = 0; i < n; i++) {
            positions[at + i] = (int32_t)i;
            labels[at + i] = i + 1 < n ? ids[at + i + 1] : -1;
        }
        labelled += (uint64_t)n - 1;
        t->done.pairs += (uint64_t)n * (uint64_t)(n + 1) / 2;
    }
    m->n_tokens = (uint32_t)t->tokens;
    m->weight = labelled ? (float)(1.0 / (double)(labelled * micro_a_step)) : 0;
    t->done.tokens += (uint64_t)t->tokens;
    t->done.labelled += labelled;
    t->sent++;
}

/* A step of so many micro-batches, to its end. Between steps nothing computes, so the profile may be read and cleared then. */
static int run_step(struct trainer *t, uint64_t micro)
{
    struct zl_report report = {0};
    uint64_t sent = 0, reported = 0;
    int rc = 0;
    t->step++;
    while (reported < micro && !rc) {
        struct zl_packet *m = sent < micro ? zl_pipeline_slot(&t->pipeline, 0) : NULL;
        if (m) {
            fill(t, m, ++sent == micro, micro);
            zl_pipeline_send(&t->pipeline, m);
        } else if (zl_pipeline_report(&t->pipeline, WAIT_NS, &report)) {
            reported++;
        } else if (zl_pipeline_done(&t->pipeline)) {
            rc = zl_fail(t->b->err, ZL_ESTOPPED, "the stage has ended by itself");
        }
        if (!rc)
            rc = zl_bench_stopped(t->b);
    }
    return rc;
}

static void look_at_memory(struct trainer *t)
{
    uint64_t private_bytes = 0, pss = zl_memory_pss(&private_bytes);
    t->pss = pss > t->pss ? pss : t->pss;
    t->private_bytes = private_bytes > t->private_bytes ? private_bytes : t->private_bytes;
}

static int measure(struct trainer *t, struct zl_bench_step *r)
{
    const bool quick = t->b->o->quick;
    const uint64_t wish = quick ? 1 : t->b->o->batch_tokens / (uint64_t)t->tokens, micro = wish ? wish : 1;
    int rc = run_step(t, 1);
    t->profile = (struct zl_profile){0};
    t->done = (struct zl_work_done){0};
    while (!rc && (r->steps == 0 || (!quick && r->seconds < LEAST_SECONDS))) {
        double start = zl_bench_now();
        rc = run_step(t, micro);
        r->seconds += zl_bench_now() - start;
        r->steps++;
        look_at_memory(t);
    }
    return rc;
}

static void evaluate(const struct trainer *t, struct zl_bench_step *r)
{
    double flops[ZL_PARTS];
    zl_flops(&t->model.config, &t->lora, &t->done, flops);
    r->tokens = t->done.tokens;
    r->labelled = t->done.labelled;
    r->micro_tokens = (uint64_t)t->tokens;
    r->length = (uint64_t)t->length;
    r->rest_seconds = r->seconds;
    r->peak_pss_bytes = t->pss;
    r->peak_private_bytes = t->private_bytes;
    for (int part = 0; part < ZL_PARTS; part++) {
        struct zl_part_time *p = &r->part[part];
        p->seconds = (double)t->profile.ns[part] * 1e-9;
        p->gflops = p->seconds > 0 ? flops[part] / p->seconds * 1e-9 : 0;
        r->rest_seconds -= p->seconds;
        r->flops += flops[part];
    }
    r->utilisation = r->flops / (t->b->peak * 1e9 * r->seconds);
}

int zl_bench_training(struct zl_bench *b)
{
    const struct zl_bench_options *o = b->o;
    struct trainer t = {.b = b, .tokens = (int64_t)o->micro_batch_tokens, .length = (int64_t)o->max_length};
    struct zl_bench_step r = {.model = o->model};
    t.length = t.length < t.tokens ? t.length : t.tokens;
    int rc = o->model ? zl_model_open(o->model, (uint64_t)t.length, &t.model, b->err) : open_random(&t, &r);
    if (rc)
        return rc;
    rc = zl_bench_stopped(b); /* from here on a segment exists, which a stop must not leave behind */
    if (!rc)
        rc = open_pipeline(&t);
    if (!rc) {
        rc = measure(&t, &r);
        rc ? zl_pipeline_abort(&t.pipeline) : zl_pipeline_finish(&t.pipeline);
        zl_pipeline_join(&t.pipeline);
    }
    if (!rc) {
        evaluate(&t, &r);
        b->sink->step(b->sink->context, &r);
    }
    zl_pipeline_close(&t.pipeline);
    zl_model_close(&t.model);
    return rc;
}
