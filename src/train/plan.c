/*
 * The plan of a run: see plan.h. The probe runs the real pipeline on the run's first micro-batches for a few seconds; what it learns is
 * thrown away, only the stages' busy times are kept. A sweep's blocks are probed one at a time (sweep_probe.c).
 */
#include "train/plan.h"

#include "base/clock.h"
#include "train/costs.h"
#include "train/setup.h"
#include "train/sweep.h"

#define PROBE_SECONDS 4.0
#define PROBE_MICRO 12 /* micro-batches at most */

struct probe {
    double busy[ZL_STAGES_MAX]; /* seconds, by stage */
    uint64_t tokens;            /* that went through all stages, the first micro-batch (which touches memory for the first time) left out */
};

/* Take all reports that are there; counts those of the micro-batches from 1 on. */
static void take_reports(struct zl_pipeline *l, const struct zl_setup *s, struct probe *p, int64_t timeout_ns)
{
    struct zl_report r;
    while (zl_pipeline_report(l, timeout_ns, &r)) {
        if (r.micro == 0)
            continue;
        p->busy[r.stage] += (double)r.busy_ns * 1e-9;
        if (r.stage + 1 == l->n)
            p->tokens += s->order.micro[r.micro].n_tokens;
    }
}

static int run_probe(struct zl_setup *s, const struct zl_hooks *hooks, struct probe *p, struct zl_error *err)
{
    struct zl_pipeline l;
    char note[256] = "";
    *p = (struct probe){0};
    int rc = zl_hooks_check(hooks, err);
    if (rc)
        return rc;
    rc = zl_pipeline_open(&l, &s->corpus.model, &s->partition, &s->pipeline, note, err);
    if (rc)
        return rc;
    rc = zl_pipeline_start(&l, err);
    const double end = zl_clock_seconds() + PROBE_SECONDS;
    for (uint64_t i = 0; !rc && i < s->order.n_micro && i < PROBE_MICRO && (i < 2 || zl_clock_seconds() < end); i++) {
        struct zl_packet *m = NULL;
        while (!(rc = zl_hooks_check(hooks, err)) && !(m = zl_pipeline_slot(&l, 20000000)))
            take_reports(&l, s, p, 0);
        if (rc)
            break;
        *m = (struct zl_packet){.kind = ZL_TRAIN, .step = i + 1, .last_of_step = 1, .weight = 1e-3f, .lr = 0};
        zl_corpus_fill(&s->corpus.train, &s->order, i, &l.feed_layout, m);
        zl_pipeline_send(&l, m);
    }
    if (!rc || rc == ZL_ESTOPPED) {
        zl_pipeline_finish(&l);
        while (!zl_pipeline_done(&l))
            take_reports(&l, s, p, 20000000);
        zl_pipeline_join(&l);
    }
    zl_pipeline_close(&l);
    return rc;
}

/* Tokens a second once the pipeline is full: the slowest worker decides, whose stages take turns; or, where workers have the stages in
 * common, all of them together or the slowest stage. */
static double tokens_per_second(const struct zl_setup *s, const struct probe *p)
{
    double busy[ZL_STAGES_MAX] = {0}, slowest = 0;
    for (uint32_t k = 0; s->places.common && k < s->partition.n; k++) {
        busy[0] += p->busy[k] / s->places.n_workers;
        slowest = p->busy[k] > slowest ? p->busy[k] : slowest;
    }
    if (s->places.common)
        return slowest > 0 ? (double)p->tokens / (busy[0] > slowest ? busy[0] : slowest) : 0;
    for (uint32_t k = 0; k < s->partition.n; k++) {
        double *worker = &busy[s->places.worker_of[k]];
        *worker += p->busy[k];
        slowest = *worker > slowest ? *worker : slowest;
    }
    return slowest > 0 ? (double)p->tokens / slowest : 0;
}

static double mib(uint64_t bytes)
{
    return (double)bytes / 1048576;
}

static void print_stages(const struct zl_setup *s, const struct probe *p, FILE *f)
{
    fprintf(f, "stage  layers  look-ahead  readout       cores  adapters+optimizer  activations  busy a token\n");
    for (uint32_t k = 0; k < s->partition.n; k++) {
        const struct zl_cut *c = &s->partition.cut[k];
        const struct zl_block_plan *b = &s->plan.block[k];
        const char *readout = c->frozen && k + 1 < s->partition.n ? "none (frozen)"
                              : k + 1 == s->partition.n           ? "the model's"
                              : c->map                            ? "map"
                                                                  : "norm and head";
        fprintf(f, "%5u  %2u..%-3u %11u  %-13s %5d %15.1f MiB %8.1f MiB", k, c->first, c->first + c->n_own - 1, c->n_shadow,
                readout, s->groups[s->places.worker_of[k]].n, mib(b->state_bytes), mib(b->activation_bytes + b->scratch_bytes));
        if (p->tokens)
            fprintf(f, " %8.3f ms", 1e3 * p->busy[k] / (double)p->tokens);
        fputc('\n', f);
    }
}

/* One block after the other: the largest decides. */
static void print_sweep_memory(const struct zl_setup *s, const char *recompute, FILE *f)
{
    const struct zl_sweep_plan *p = &s->sweep;
    fprintf(f, "  %8.1f  weights of the largest stage with its look-ahead, of %.1f\n", mib(p->resident_bytes), mib(s->corpus.model.weight_bytes));
    fprintf(f, "  %8.1f  its adapters and optimizer\n", mib(p->state_bytes));
    fprintf(f, "  %8.1f  its readout's map and rows of the head\n", mib(p->map_bytes + p->head_bytes));
    fprintf(f, "  %8.1f  activations and scratch, %s\n", mib(p->activation_bytes), recompute);
    fprintf(f, "  %8.1f  buffers of the spill\n", mib(p->buffer_bytes + zl_frozen_memory(s)));
    if (p->n_maps)
        fprintf(f, "  %8.1f  while the readouts are fitted, in the place of weights, adapters and map\n", mib(p->fit_bytes));
    fprintf(f, "  %8.1f  program, tokenizer, data\n", mib(s->pss_before));
    fprintf(f, "  %8.1f  in all, at most\n", mib(zl_setup_expected_bytes(s)));
    fprintf(f, "\non the disk, MiB\n");
    fprintf(f, "  %8.1f  hidden states of a window of %llu steps%s\n", mib(p->hidden_bytes), (unsigned long long)p->window,
            p->n_maps ? ", or of the readouts' fit" : "");
    fprintf(f, "  %8.1f  adapters, optimizers and maps of all stages\n", mib(p->states_bytes));
}

static void print_memory(const struct zl_setup *s, FILE *f)
{
    static const char *const recomputes[] = {
        [ZL_RECOMPUTE_NONE] = "keeping all activations",
        [ZL_RECOMPUTE_SELECTIVE] = "computing the inner half of each MLP again",
        [ZL_RECOMPUTE_FULL] = "computing each layer again"};
    uint64_t state = 0, waiting = 0;
    for (uint32_t k = 0; k < s->partition.n; k++) {
        state += s->plan.block[k].state_bytes;
        waiting += s->plan.waiting_bytes[k];
    }
    fprintf(f, "\nmemory, MiB\n");
    if (s->sweep.resident_bytes) {
        print_sweep_memory(s, recomputes[s->pipeline.recompute], f);
        return;
    }
    fprintf(f, "  %8.1f  weights, mapped from the file\n", mib(s->corpus.model.weight_bytes));
    fprintf(f, "  %8.1f  adapters and optimizer\n", mib(state));
    fprintf(f, "  %8.1f  activations and scratch, %s%s\n", mib(s->plan.activation_bytes), recomputes[s->pipeline.recompute],
            s->pipeline.halves ? ", as bfloat16" : "");
    fprintf(f, "  %8.1f  rings and what waits in the stages\n", mib(s->plan.ring_bytes + waiting));
    if (s->checkpoint_bytes)
        fprintf(f, "  %8.1f  checkpoints of %.1f MiB on their way to the disk\n", mib(s->checkpoint_bytes), mib(s->checkpoint_file_bytes));
    fprintf(f, "  %8.1f  program, tokenizer, data\n", mib(s->pss_before));
    fprintf(f, "  %8.1f  in all, at most\n", mib(zl_setup_expected_bytes(s)));
}

static void print_time(double seconds, FILE *f)
{
    unsigned long long t = (unsigned long long)(seconds + 0.5);
    if (t >= 3600)
        fprintf(f, "%llu h %02llu min", t / 3600, t / 60 % 60);
    else if (t >= 60)
        fprintf(f, "%llu min %02llu s", t / 60, t % 60);
    else
        fprintf(f, "%llu s", t);
}

static void print_work(const struct zl_setup *s, const struct probe *p, FILE *f)
{
    uint64_t tokens = 0, first_epoch = 0;
    for (uint64_t i = 0; i < s->order.n_steps; i++)
        tokens += s->order.steps[i].n_tokens;
    for (uint64_t i = 0; i < s->corpus.train.n_examples; i++)
        first_epoch += s->corpus.train.examples[i].n;
    fprintf(f, "\n%llu step%s, %llu micro-batches of at most %lld tokens, %llu tokens in all, %llu an epoch\n",
            (unsigned long long)s->order.n_steps, s->order.n_steps == 1 ? "" : "s", (unsigned long long)s->order.n_micro,
            (long long)s->pipeline.tokens, (unsigned long long)tokens, (unsigned long long)first_epoch);
    double rate = tokens_per_second(s, p);
    if (rate <= 0)
        return;
    fprintf(f, "about %.0f tokens/s (measured on %llu tokens): ", rate, (unsigned long long)p->tokens);
    print_time((double)tokens / rate, f);
    fprintf(f, " for the run, ");
    print_time((double)first_epoch / rate, f);
    fprintf(f, " an epoch\n");
}

/* The schedules side by side, from the costs of a layer and of the head measured just now. */
static int print_schedules(const struct zl_setup *s, const struct zl_train_options *o, FILE *f, struct zl_error *err)
{
    static const struct {
        enum zl_schedule_kind schedule;
        enum zl_placement placement;
    } ways[] = {{ZL_SCHEDULE_BP, ZL_PLACEMENT_AUTO},          {ZL_SCHEDULE_ZEROLOCK, ZL_PLACEMENT_SPREAD},
                {ZL_SCHEDULE_ZEROLOCK, ZL_PLACEMENT_STACKED}, {ZL_SCHEDULE_GPIPE, ZL_PLACEMENT_SPREAD},
                {ZL_SCHEDULE_1F1B, ZL_PLACEMENT_SPREAD},      {ZL_SCHEDULE_PIPEDREAM, ZL_PLACEMENT_SPREAD},
                {ZL_SCHEDULE_ASYNC, ZL_PLACEMENT_SPREAD}};
    struct zl_costs costs;
    int rc = zl_costs_measure(s, &costs, err);
    if (rc)
        return rc;
    if (costs.core_share < 1)
        fprintf(f, "\nother programs are at work: a core gave %.0f %% of its time; the table is for whole cores, the lines above are not\n",
                100 * costs.core_share);
    fprintf(f, "\non this machine, expected of each schedule with these micro-batches (a token of a layer takes %.2f us forward and %.2f us\n"
               "backward on one core, its readout %.2f us; a team leaves %.0f %% of the work to one thread):\n"
               "  schedule   placement  stages  tokens/s  activations, MiB  in all, MiB\n",
            costs.layer_forward * 1e-3, costs.layer_backward * 1e-3, costs.last_readout * 1e-3, 100 * costs.serial);
    for (size_t i = 0; !rc && i < sizeof ways / sizeof ways[0]; i++) {
        struct zl_train_options other = *o;
        struct zl_setup v;
        double speed = 0;
        other.schedule = ways[i].schedule;
        other.placement = ways[i].placement;
        other.interleave = 1;
        if (zl_schedules[o->schedule].single && other.stages < 2)
            other.stages = 2;
        if (zl_schedules[other.schedule].single || !zl_schedules[other.schedule].local)
            other.freeze = (struct zl_numbers){0};
        if (other.stages > s->corpus.model.config.layers || (other.schedule != o->schedule && o->interleave > 1))
            other.bounds = (struct zl_numbers){0};
        if (zl_schedules[other.schedule].single)
            other.bounds = (struct zl_numbers){0};
        rc = zl_setup_variant(&v, s, &other, err);
        if (!rc)
            rc = zl_costs_speed(&costs, &v, &speed, err);
        if (!rc) {
            uint64_t waiting = 0;
            for (uint32_t k = 0; k < v.partition.n; k++)
                waiting += v.plan.waiting_bytes[k];
            const bool chosen = other.schedule == o->schedule && (v.placement == s->placement || v.partition.n == 1);
            fprintf(f, "%c %-10s %-9s %7u %9.0f %17.1f %12.1f\n", chosen ? '*' : ' ', zl_schedule_names[other.schedule],
                    v.partition.n > 1 ? zl_placement_names[v.placement] : "-", v.partition.n, speed,
                    mib(v.plan.activation_bytes + waiting + v.plan.ring_bytes), mib(zl_setup_expected_bytes(&v)));
        }
        zl_setup_variant_free(&v);
    }
    return rc;
}

int zl_plan_run(const struct zl_train_options *o, FILE *f, struct zl_error *err)
{
    struct zl_setup s;
    struct probe p = {0};
    int rc = zl_setup_make(&s, o, err);
    const bool sweep = o->schedule == ZL_SCHEDULE_SWEEP;
    if (!rc && !sweep)
        rc = zl_setup_readouts(&s, o, 1, err);
    if (!rc) /* a sweep's blocks are probed one at a time: all of them at once may not fit */
        rc = sweep ? zl_sweep_probe(&s, o, p.busy, &p.tokens, err) : run_probe(&s, o->hooks, &p, err);
    if (!rc) {
        print_stages(&s, &p, f);
        print_memory(&s, f);
        print_work(&s, &p, f);
        if (!sweep)
            rc = print_schedules(&s, o, f, err);
    }
    zl_setup_free(&s);
    return rc;
}
