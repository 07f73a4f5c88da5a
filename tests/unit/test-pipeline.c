/*
 * A pipeline driven by hand on a tiny model: late gradients are those of a plain simulation, every schedule goes on from a marker's snapshot to
 * the same bits and from wherever it was halted, delays at random change nothing, and a pipeline that is broken off ends.
 */
#include "tests/unit/test.h"

#include <math.h>
#include <time.h>

#include "pipe/pipeline.h"
#include "tests/variant.h"

enum { LAYERS = 4, VOCAB = 260, ALL = (1 << ZL_LINEARS) - 1, TOKENS = 40, MICRO = 14, MOST_STAGES = 4 };

static struct tiny tiny;
static struct zl_model model;
static struct batch usual[MICRO], single[MICRO]; /* single: one sequence of one token in each */
static const struct batch *batch = usual;
static const struct zl_lora_spec lora = {.rank = 4, .targets = ALL, .alpha = 8};
static const struct zl_optimizer adamw = {.lr = 1e-2f, .beta1 = 0.9f, .beta2 = 0.99f, .eps = 1e-8f, .clip = 1};
static const uint32_t same_worker[MOST_STAGES] = {0, 0, 0, 0}, own_worker[MOST_STAGES] = {0, 1, 2, 3};

/* What was snapshotted at the marker behind step `generation`. */
struct snapshots {
    struct {
        unsigned char *data;
        uint64_t bytes;
    } part[MICRO + 1][MOST_STAGES][ZL_STAGE_SECTIONS];
};

struct way {
    enum zl_schedule_kind schedule;
    uint32_t stages, per_step, ring_depth;
    uint32_t micro;            /* only so many micro-batches; 0: all */
    bool vertical_sync, stacked, replay;
    bool common;               /* two workers run all stages */
    uint32_t lag;              /* of async; 0: the usual one */
    unsigned delays;           /* seed of pauses at random; 0: none */
    struct snapshots *take;    /* leave the state of every step here */
    struct snapshots *from;    /* or begin with that behind step `at` */
    uint32_t at;
    uint32_t break_at;         /* abort before this operation; 0: never */
    uint32_t halt_at;          /* halt behind this operation and go on in another pipeline, again and again; 0: never */
};

struct result {
    uint64_t n[MOST_STAGES];
    float *w[MOST_STAGES];
    uint64_t reports;
};

static int put(void *context, uint64_t generation, uint32_t stage, uint32_t section, const void *data, uint64_t bytes)
{
    struct snapshots *s = context;
    s->part[generation][stage][section].data = malloc(bytes);
    memcpy(s->part[generation][stage][section].data, data, bytes);
    s->part[generation][stage][section].bytes = bytes;
    return 0;
}

static void free_snapshots(struct snapshots *s)
{
    for (size_t i = 0; i < MICRO + 1; i++)
        for (size_t k = 0; k < MOST_STAGES; k++)
            for (size_t j = 0; j < ZL_STAGE_SECTIONS; j++)
                free(s->part[i][k][j].data);
    memset(s, 0, sizeof *s);
}

struct disturbance {
    struct zl_pipeline *pipeline;
    unsigned seed;
    uint32_t break_at, halt_at;
    _Atomic uint32_t operations;
};

static void disturb(void *context, uint32_t stage)
{
    struct disturbance *d = context;
    const uint32_t n = d->operations++;
    if (d->break_at && n + 1 == d->break_at)
        zl_pipeline_abort(d->pipeline);
    if (d->halt_at && n + 1 == d->halt_at)
        zl_pipeline_halt(d->pipeline);
    if (d->seed) {
        unsigned x = (d->seed * 2654435761u) ^ (n * 40503u) ^ (stage * 9176u);
        nanosleep(&(struct timespec){0, (long)(x % 7 ? 0 : x % 3000000)}, NULL);
    }
}

static void fill(const struct zl_pipeline *l, struct zl_packet *p, uint32_t i, uint32_t per_step)
{
    const struct batch *b = &batch[i];
    const size_t ints = (size_t)b->tok.t * sizeof(int32_t);
    *p = (struct zl_packet){.kind = ZL_TRAIN, .n_tokens = (uint32_t)b->tok.t, .n_seqs = (uint32_t)b->tok.n_seqs, .micro = i,
                            .step = i / per_step + 1, .last_of_step = (i + 1) % per_step == 0, .weight = 0.01f, .lr = adamw.lr};
    memcpy(zl_packet_at(p, l->feed_layout.ids), b->ids, ints);
    memcpy(zl_packet_at(p, l->feed_layout.labels), b->labels, ints);
    memcpy(zl_packet_at(p, l->feed_layout.positions), b->positions, ints);
    memcpy(zl_packet_at(p, l->feed_layout.seqs), b->seqs, (size_t)b->tok.n_seqs * sizeof *b->seqs);
}

static struct zl_packet *slot(struct zl_pipeline *l, uint64_t *reports)
{
    struct zl_packet *p;
    struct zl_report r;
    while (!(p = zl_pipeline_slot(l, 2000000)) && !zl_pipeline_done(l) && !zl_pipeline_over(l))
        while (zl_pipeline_report(l, 0, &r))
            ++*reports;
    return p;
}

static void cut(struct zl_partition *p, uint32_t stages)
{
    *p = (struct zl_partition){.layers = LAYERS, .n = stages};
    for (uint32_t k = 0; k < stages; k++) {
        p->cut[k].first = k * LAYERS / stages;
        p->cut[k].n_own = (k + 1) * LAYERS / stages - p->cut[k].first;
    }
}

/* The state of a halted pipeline, and how it is read back. */
static struct {
    unsigned char *data;
    uint64_t bytes;
} whole[MOST_STAGES][ZL_STAGE_SECTIONS];

static int put_whole(void *context, uint64_t generation, uint32_t stage, uint32_t section, const void *data, uint64_t bytes)
{
    (void)context;
    (void)generation;
    whole[stage][section].data = realloc(whole[stage][section].data, whole[stage][section].bytes + bytes);
    memcpy(whole[stage][section].data + whole[stage][section].bytes, data, bytes);
    whole[stage][section].bytes += bytes;
    return 0;
}

static uint64_t bytes_whole(void *context, uint32_t stage, uint32_t section)
{
    (void)context;
    return whole[stage][section].bytes;
}

static int read_whole(void *context, uint32_t stage, uint32_t section, void *data, uint64_t bytes, struct zl_error *err)
{
    (void)context;
    if (bytes != whole[stage][section].bytes)
        return zl_fail(err, ZL_EINPUT, "section %u of stage %u has %u bytes, not %u", section, stage, (unsigned)whole[stage][section].bytes,
                       (unsigned)bytes);
    memcpy(data, whole[stage][section].data, bytes);
    return 0;
}

/* What the stages count as finished is what they have reported, wherever they were halted. */
static void put_down(struct zl_pipeline *l, uint64_t reports)
{
    uint64_t finished = 0;
    for (uint32_t k = 0; k < l->n; k++)
        finished += l->stage[k].state.finished;
    assert_int_equal(finished, reports);
    const struct zl_snapshot_sink sink = {put_whole, NULL};
    struct zl_pipeline_part part[MOST_STAGES * ZL_STAGE_SECTIONS];
    for (size_t k = 0; k < MOST_STAGES; k++)
        for (size_t j = 0; j < ZL_STAGE_SECTIONS; j++)
            whole[k][j].bytes = 0;
    const uint32_t n = zl_pipeline_parts(l, part);
    assert_int_equal(zl_pipeline_put(l, &sink, 1), 0);
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(part[i].bytes, whole[part[i].stage][part[i].section].bytes);
}

static void take_up(struct zl_pipeline *l)
{
    const struct zl_pipeline_source source = {bytes_whole, read_whole, NULL};
    struct zl_error err = {0};
    if (zl_pipeline_restore(l, &source, &err))
        fail_msg("%s", err.text);
}

/* In whole steps. */
static uint32_t micro_of(const struct way *way)
{
    return (way->micro ? way->micro : MICRO) / way->per_step * way->per_step;
}

static struct result run(const struct way *way)
{
    struct zl_pipeline l;
    struct zl_partition partition;
    struct zl_error err = {0};
    struct result result = {0};
    struct zl_report r;
    char note[256];
    const struct zl_core_group groups[MOST_STAGES] = {{.n = 1}, {.n = 1}, {.n = 1}, {.n = 1}};
    const struct zl_snapshot_sink sink = {way->take ? put : NULL, way->take};
    struct disturbance d = {&l, way->delays, way->break_at, way->halt_at, 0};
    const struct zl_schedule schedule = zl_schedule_make(way->schedule, way->lag, way->replay);
    cut(&partition, way->stages);
    const struct zl_pipeline_options o = {.lora = &lora, .tokens = TOKENS, .seqs = 2, .longest = TOKENS, .ring_depth = way->ring_depth,
                                          .optimizer = adamw, .schedule = &schedule,
                                          .vertical_sync = way->vertical_sync, .micro_per_step = way->per_step,
                                          .n_workers = way->stacked ? 1 : way->common ? 2 : way->stages, .common = way->common,
                                          .worker_of = way->stacked || way->common ? same_worker : own_worker, .groups = groups, .seed = 3, .sink = &sink,
                                          .before = way->delays || way->break_at || way->halt_at ? disturb : NULL, .before_context = &d};
    const uint32_t n_micro = micro_of(way);
    uint32_t i = way->from ? way->at * way->per_step : 0;
    bool halted = false;
again:
    if (zl_pipeline_open(&l, &model, &partition, &o, note, &err))
        fail_msg("%s", err.text);
    if (halted)
        take_up(&l);
    for (uint32_t k = 0; way->from && k < l.n; k++) {
        struct zl_stage_part part[ZL_STAGE_SECTIONS];
        const unsigned n = zl_stage_parts(&l.stage[k], false, part);
        for (unsigned j = 0; j < n; j++) {
            assert_int_equal(part[j].bytes, way->from->part[way->at][k][part[j].section].bytes);
            memcpy(part[j].data, way->from->part[way->at][k][part[j].section].data, part[j].bytes);
        }
    }
    if (zl_pipeline_start(&l, &err))
        fail_msg("%s", err.text);
    for (; i < n_micro; i++) {
        struct zl_packet *p = slot(&l, &result.reports);
        if (!p)
            break;
        fill(&l, p, i, way->per_step);
        const bool end = p->last_of_step;
        zl_pipeline_send(&l, p);
        if (end && way->take && (p = slot(&l, &result.reports)))
            zl_pipeline_mark(&l, p, i / way->per_step + 1, i / way->per_step + 1);
    }
    zl_pipeline_finish(&l);
    while (!zl_pipeline_done(&l) && !zl_pipeline_over(&l))
        while (zl_pipeline_report(&l, 1000000, &r))
            result.reports++;
    zl_pipeline_join(&l);
    while (zl_pipeline_report(&l, 0, &r))
        result.reports++;
    if (!zl_pipeline_done(&l) && !way->break_at) {
        put_down(&l, result.reports);
        zl_pipeline_close(&l);
        halted = true;
        d.operations = 0;
        goto again;
    }
    for (uint32_t k = 0; k < l.n; k++) {
        result.n[k] = l.stage[k].block.n;
        result.w[k] = malloc(result.n[k] * sizeof(float));
        memcpy(result.w[k], l.stage[k].block.w, result.n[k] * sizeof(float));
    }
    zl_pipeline_close(&l);
    return result;
}

static void free_result(struct result *r)
{
    for (size_t k = 0; k < MOST_STAGES; k++)
        free(r->w[k]);
}

static uint64_t differences(const struct result *a, const struct result *b, double *largest)
{
    uint64_t n = 0;
    *largest = 0;
    for (size_t k = 0; k < MOST_STAGES; k++) {
        assert_int_equal(a->n[k], b->n[k]);
        for (uint64_t i = 0; i < a->n[k]; i++) {
            n += memcmp(&a->w[k][i], &b->w[k][i], sizeof(float)) != 0;
            *largest = fmax(*largest, fabs((double)a->w[k][i] - (double)b->w[k][i]));
        }
    }
    return n;
}

static void assert_same(const char *what, const struct result *a, const struct result *b)
{
    double largest;
    uint64_t n = differences(a, b, &largest);
    print_message("  %s: %llu weights differ, by at most %.2g (bound 0)\n", what, (unsigned long long)n, largest);
    assert_int_equal(n, 0);
}

/* ---- late gradients, simulated one micro-batch after the other ------------------------------------- */

/* Steps that are whole among the micro-batches below `end` (which may be negative). */
static uint32_t steps_below(int end, uint32_t per_step)
{
    return end > 0 ? (uint32_t)end / per_step : 0;
}

/* A stage of the simulation: its weights after every step so far. */
struct old {
    struct zl_block b;
    float *after[MICRO + 1];
};

static void remember(struct old *s, uint32_t step)
{
    s->after[step] = malloc(s->b.n * sizeof(float));
    memcpy(s->after[step], s->b.w, s->b.n * sizeof(float));
}

/* Which of them a micro-batch meets: forward on its way in, and when its backward comes. A stage that has forwarded m has run the
 * backwards of those below m - ahead, where ahead is the lag times the number of stages behind it. */
static struct result simulate(const struct way *way)
{
    struct zl_partition partition;
    struct old stage[MOST_STAGES];
    struct zl_error err = {0};
    struct result result = {0};
    const uint32_t K = way->stages;
    const int lag = way->schedule == ZL_SCHEDULE_ASYNC ? (int)way->lag : 1;
    cut(&partition, K);
    for (uint32_t k = 0; k < K; k++) {
        const struct zl_block_spec spec = {.first = partition.cut[k].first, .n_own = partition.cut[k].n_own, .train = true,
                                           .has_loss = k + 1 == K, .lora = &lora, .seed = 3, .tokens = TOKENS, .longest = TOKENS,
                                           .need_dx = k > 0};
        if (zl_block_open(&stage[k].b, &model, &spec, 1, &err))
            fail_msg("%s", err.text);
        remember(&stage[k], 0);
    }
    static float x[MOST_STAGES + 1][TOKENS * 32], dy[TOKENS * 32];
    for (uint32_t m = 0; m < micro_of(way); m++) {
        const struct batch *b = &batch[m];
        const size_t bytes = (size_t)b->tok.t * 32 * sizeof(float);
        memcpy(x[0], b->x, bytes);
        for (uint32_t k = 0; k < K; k++) {
            const int ahead = lag * (int)(K - 1 - (way->vertical_sync ? 0 : k));
            stage[k].b.in_use = stage[k].after[steps_below((int)m - ahead, way->per_step)];
            memcpy(x[k + 1], zl_block_forward(&stage[k].b, 0, &b->tok, x[k]), bytes);
        }
        for (uint32_t k = K; k-- > 0;) {
            struct zl_loss loss;
            if (way->replay) {
                stage[k].b.in_use = stage[k].after[steps_below((int)m, way->per_step)];
                zl_block_forward(&stage[k].b, 0, &b->tok, x[k]);
            }
            if (k + 1 == K)
                zl_block_loss(&stage[k].b, 0, &b->tok, b->labels, 0.01f, true, &loss);
            else
                zl_block_backward(&stage[k].b, 0, &b->tok, dy);
            memcpy(dy, stage[k].b.dx, bytes);
            if ((m + 1) % way->per_step)
                continue;
            zl_block_update(&stage[k].b, &adamw, (m + 1) / way->per_step);
            remember(&stage[k], (m + 1) / way->per_step);
        }
    }
    for (uint32_t k = 0; k < K; k++) {
        result.n[k] = stage[k].b.n;
        result.w[k] = malloc(result.n[k] * sizeof(float));
        memcpy(result.w[k], stage[k].b.w, result.n[k] * sizeof(float));
        for (uint32_t i = 0; i <= micro_of(way) / way->per_step; i++)
            free(stage[k].after[i]);
        zl_block_close(&stage[k].b);
    }
    return result;
}

/* What the tests below go through; from FIRST_LATE on gradients are late, and a simulation says which weights they meet. */
static const struct form {
    const char *name;
    struct way way;
} forms[] = {
    {"zerolock", {.schedule = ZL_SCHEDULE_ZEROLOCK}},
    {"gpipe", {.schedule = ZL_SCHEDULE_GPIPE}},
    {"1f1b", {.schedule = ZL_SCHEDULE_1F1B}},
    {"pipedream", {.schedule = ZL_SCHEDULE_PIPEDREAM}},
    {"pipedream with vertical sync", {.schedule = ZL_SCHEDULE_PIPEDREAM, .vertical_sync = true}},
    {"async, lag 1", {.schedule = ZL_SCHEDULE_ASYNC, .lag = 1}},
    {"async, lag 2", {.schedule = ZL_SCHEDULE_ASYNC, .lag = 2}},
    {"async, lag 5", {.schedule = ZL_SCHEDULE_ASYNC, .lag = 5}},
    {"async with replay, lag 1", {.schedule = ZL_SCHEDULE_ASYNC, .lag = 1, .replay = true}},
    {"async with replay, lag 3", {.schedule = ZL_SCHEDULE_ASYNC, .lag = 3, .replay = true}},
};
enum { FORMS = sizeof forms / sizeof forms[0], FIRST_LATE = 3 };

static struct way way_of(const struct form *f, uint32_t stages, uint32_t per_step, uint32_t ring_depth)
{
    struct way way = f->way;
    way.stages = stages;
    way.per_step = per_step;
    way.ring_depth = ring_depth;
    return way;
}

static void late_gradients_are_those_of_a_plain_simulation(void **state)
{
    (void)state;
    for (const struct form *f = forms + FIRST_LATE; f < forms + FORMS; f++)
        for (uint32_t stages = 1; stages <= 4; stages++)
            for (uint32_t per_step = 1; per_step <= 3; per_step++) {
                char what[96];
                const struct way way = way_of(f, stages, per_step, 2);
                struct result expected = simulate(&way), got = run(&way);
                snprintf(what, sizeof what, "%s, %u stages, %u micro-batches a step", f->name, stages, per_step);
                assert_same(what, &got, &expected);
                free_result(&expected);
                free_result(&got);
            }
}

/* All weights in the order of the layers, however they are cut. */
static uint64_t flat(const struct result *r, const float **w)
{
    static float all[2][1 << 16];
    static unsigned turn;
    float *to = all[turn++ % 2];
    uint64_t n = 0;
    for (size_t k = 0; k < MOST_STAGES; n += r->n[k++])
        if (r->n[k]) {
            assert_true(n + r->n[k] <= 1 << 16);
            memcpy(to + n, r->w[k], r->n[k] * sizeof(float));
        }
    *w = to;
    return n;
}

/* What the schedule's bits have to be: the simulation's, backpropagation's, or where losses are local those of one worker for all stages with
 * deep rings. */
static void check_bits(const char *what, const struct form *f, const struct way *way, const struct result *got)
{
    struct way plain = *way;
    struct result expected;
    plain.common = false;
    plain.stacked = f < forms + FIRST_LATE;
    plain.ring_depth = 7;
    if (f >= forms + FIRST_LATE) {
        expected = simulate(&plain);
    } else {
        plain.stages = plain.schedule == ZL_SCHEDULE_ZEROLOCK ? plain.stages : 1;
        plain.schedule = plain.schedule == ZL_SCHEDULE_ZEROLOCK ? plain.schedule : ZL_SCHEDULE_BP;
        expected = run(&plain);
    }
    const float *a, *b;
    const uint64_t n = flat(&expected, &a);
    uint64_t different = 0, moved = 0;
    assert_int_equal(flat(got, &b), n);
    for (uint64_t i = 0; i < n; i++) {
        different += memcmp(&a[i], &b[i], sizeof *a) != 0;
        moved += a[i] != 0;
    }
    print_message("  %s: %llu of %llu weights differ (bound 0)\n", what, (unsigned long long)different, (unsigned long long)moved);
    assert_int_equal(different, 0);
    assert_true(moved > n / 2); /* B too, which begins at 0 */
    free_result(&expected);
}

/* Four stages with 1 to 5 micro-batches a step, and with so many in the whole run, through rings of one slot; sequences of one token too. Who
 * counts on as many micro-batches as stages, or sends before it takes, waits for ever here. */
static void fewer_and_more_micro_batches_than_stages_pass_rings_of_one_slot(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 4, 5};
    for (const struct form *f = forms; f < forms + FORMS; f++)
        for (size_t i = 0; i < 4 * sizeof sizes / sizeof sizes[0]; i++) {
            char what[128];
            struct way way = way_of(f, 4, sizes[i / 4], 1);
            way.micro = i & 1 ? way.per_step : 0;
            batch = i & 2 ? single : usual;
            for (int workers = 1; workers <= 4; workers += workers) {
                way.stacked = workers == 1;
                way.common = workers == 2;
                struct result got = run(&way);
                snprintf(what, sizeof what, "%s, 4 stages on %d workers, %u micro-batches a step, %u in all%s", f->name, workers, way.per_step,
                         micro_of(&way), i & 2 ? ", of one token" : "");
                assert_int_equal(got.reports, 4 * micro_of(&way));
                check_bits(what, f, &way, &got);
                free_result(&got);
            }
        }
    batch = usual;
}

static void every_schedule_goes_on_from_a_snapshot_to_the_same_bits(void **state)
{
    (void)state;
    static struct snapshots taken;
    for (size_t i = 0; i < 2 * FORMS; i++) {
        struct way way = way_of(&forms[i / 2], 2 + i % 2 * 2, 2, 1);
        way.take = &taken;
        way.delays = 5;
        struct result straight = run(&way);
        way.take = NULL;
        way.from = &taken;
        for (way.at = 1; way.at <= MICRO / 2; way.at++) {
            char what[96];
            way.stacked = way.at % 3 == 1;
            way.common = way.at % 3 == 2;
            struct result resumed = run(&way);
            snprintf(what, sizeof what, "%s, %u stages, from step %u", forms[i / 2].name, way.stages, way.at);
            assert_same(what, &resumed, &straight);
            free_result(&resumed);
        }
        free_result(&straight);
        free_snapshots(&taken);
    }
}

/* A marker may pass while gradients of the last one still wait in their place. */
static void every_schedule_goes_on_from_the_snapshots_of_a_run_that_went_on(void **state)
{
    (void)state;
    static struct snapshots taken[2];
    for (size_t i = 0; i < 2 * FORMS; i++) {
        struct way way = way_of(&forms[i / 2], 2 + i % 2 * 2, 1, 2);
        way.take = &taken[0];
        struct result straight = run(&way);
        for (way.at = 1; way.at < MICRO - 1; way.at += 3) {
            char what[96];
            way.from = &taken[0];
            way.take = &taken[1];
            struct result once = run(&way);
            way.from = &taken[1];
            way.take = NULL;
            way.at++;
            struct result twice = run(&way);
            snprintf(what, sizeof what, "%s, %u stages, from step %u and again from the next", forms[i / 2].name, way.stages, way.at - 1);
            assert_same(what, &once, &straight);
            assert_same(what, &twice, &straight);
            free_result(&once);
            free_result(&twice);
            free_snapshots(&taken[1]);
        }
        free_result(&straight);
        free_snapshots(&taken[0]);
    }
}

static void every_schedule_goes_on_from_wherever_it_was_halted(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * FORMS; i++) {
        struct way way = way_of(&forms[i / 2], 2 + i % 2 * 2, 3, 2);
        struct result straight = run(&way);
        for (way.halt_at = 1; way.halt_at <= 19; way.halt_at += way.halt_at < 7 ? 1 : 3) {
            char what[96];
            way.stacked = way.halt_at % 3 == 1;
            way.common = way.halt_at % 3 == 2;
            struct result resumed = run(&way);
            snprintf(what, sizeof what, "%s, %u stages, halted behind every %u operations", forms[i / 2].name, way.stages, way.halt_at);
            assert_same(what, &resumed, &straight);
            assert_int_equal(resumed.reports, straight.reports);
            free_result(&resumed);
        }
        free_result(&straight);
    }
}

static void delays_at_random_change_no_bit(void **state)
{
    (void)state;
    for (const struct form *f = forms; f < forms + FORMS; f++) {
        struct way way = way_of(f, 4, 3, 2);
        struct result still = run(&way);
        for (way.delays = 1; way.delays <= 3; way.delays++) {
            way.ring_depth = way.delays;
            way.common = way.delays != 2;
            struct result disturbed = run(&way);
            assert_same(f->name, &disturbed, &still);
            free_result(&disturbed);
        }
        free_result(&still);
    }
}

static void a_pipeline_that_is_broken_off_ends(void **state)
{
    (void)state;
    for (const struct form *f = forms; f < forms + FORMS; f++)
        for (uint32_t at = 1; at < 60; at += 7) {
            struct way way = way_of(f, 3, 4, 1);
            way.break_at = at;
            way.stacked = at % 3 == 1;
            way.common = at % 3 == 2;
            struct result r = run(&way);
            assert_true(r.reports <= 3 * MICRO);
            free_result(&r);
        }
}

static int setup(void **state)
{
    (void)state;
    tiny_make(&tiny, LAYERS, 1);
    variant_open(&tiny, 256, &model);
    for (uint32_t i = 0; i < MICRO; i++)
        batch_make(&usual[i], &model, (int64_t[]){TOKENS - 11 - (int64_t)i, i % 3 ? 11 : 1}, 2, VOCAB, 40 + i);
    for (uint32_t i = 0; i < MICRO; i++) {
        batch_make(&single[i], &model, (int64_t[]){1}, 1, VOCAB, 80 + i);
        single[i].labels[0] = (int32_t)(i * 7 % VOCAB); /* what follows is not among the tokens */
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < MICRO; i++)
        batch_free(&usual[i]);
    for (size_t i = 0; i < MICRO; i++)
        batch_free(&single[i]);
    for (size_t k = 0; k < MOST_STAGES; k++)
        for (size_t j = 0; j < ZL_STAGE_SECTIONS; j++)
            free(whole[k][j].data);
    zl_model_close(&model);
    tiny_remove(&tiny);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_gradients_are_those_of_a_plain_simulation),
        cmocka_unit_test(fewer_and_more_micro_batches_than_stages_pass_rings_of_one_slot),
        cmocka_unit_test(every_schedule_goes_on_from_a_snapshot_to_the_same_bits),
        cmocka_unit_test(every_schedule_goes_on_from_the_snapshots_of_a_run_that_went_on),
        cmocka_unit_test(every_schedule_goes_on_from_wherever_it_was_halted),
        cmocka_unit_test(delays_at_random_change_no_bit),
        cmocka_unit_test(a_pipeline_that_is_broken_off_ends),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
