/*
 * The options of `zerolock simulate`: the table, and the scene that the options of an entry describe. simulate.h says what each field
 * is; what a scene means is src/sim's business.
 */
#include "config.h"

#include "cmd/simulate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "cmd/commands.h"

#define FIELD(f) .offset = offsetof(struct zl_simulate_options, f)

static const char *const switches[] = {[ZL_OFF] = "off", [ZL_ON] = "on", NULL};
static const char *const placements[] = {[ZL_PLACEMENT_AUTO] = "auto", [ZL_PLACEMENT_SPREAD] = "spread", [ZL_PLACEMENT_STACKED] = "stacked",
                                         NULL};

static const struct zl_option options[] = {
    {.name = "schedules",
     .letter = 's',
     .arg = "ENTRY,...",
     .kind = ZL_OPTION_COMMAS,
     FIELD(schedules),
     .fallback = "bp,gpipe,1f1b,pipedream,async,zerolock,sweep",
     .also = "schedule",
     .group = "Schedule",
     .help = "What to simulate: names of schedules, each with options of its own behind colons, as in zerolock:readout=ridge:stages=3."},
    {.name = "stages",
     .letter = 'k',
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(stages),
     .fallback = "4",
     .min = 1,
     .max = 64,
     .also = "blocks num-stages pipeline-stages",
     .help = "Cut the model into so many stages."},
    {.name = "micro-batches",
     .letter = 'm',
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(micro),
     .fallback = "8",
     .min = 1,
     .max = 100000,
     .also = "micro gradient-accumulation-steps",
     .help = "Micro-batches of a step."},
    {.name = "steps",
     .letter = 'n',
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(steps),
     .fallback = "2",
     .min = 1,
     .max = 100000,
     .also = "max-steps iterations",
     .help = "Steps to simulate. The more, the less the time weighs in which the pipeline fills."},
    {.name = "interleave",
     .arg = "PARTS",
     .kind = ZL_OPTION_COUNT,
     FIELD(interleave),
     .fallback = "1",
     .min = 1,
     .max = 64,
     .also = "virtual-stages virtual-pipeline",
     .help = "With 1f1b: each stage holds so many parts of the model, taken in turn."},
    {.name = "lag",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(lag),
     .fallback = "2",
     .min = 1,
     .max = ZL_LAG_MAX,
     .also = "staleness delay",
     .help = "With async: micro-batches that a stage is ahead of the next one, by which gradients come late over each boundary."},
    {.name = "replay",
     .kind = ZL_OPTION_CHOICE,
     FIELD(replay),
     .choices = switches,
     .fallback = "off",
     .help = "With async, on: of micro-batches that wait only a stage's input is kept, and the forward is made again before the backward."},
    {.name = "ring-depth",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(ring_depth),
     .fallback = "4",
     .min = 1,
     .max = 1024,
     .help = "Micro-batches that a stage may put before the next one."},
    {.name = "window",
     .arg = "STEPS",
     .kind = ZL_OPTION_COUNT,
     FIELD(window),
     .fallback = "16",
     .min = 1,
     .max = 100000,
     .help = "With sweep: steps that a stage takes before the next one is loaded."},
    {.name = "placement",
     .kind = ZL_OPTION_CHOICE,
     FIELD(placement),
     .choices = placements,
     .fallback = "spread",
     .help = "spread: each stage on cores of its own; with fewer cores than stages, all take what can go on. stacked: all cores run one stage after the other. auto: what takes less time."},

    {.name = "layers",
     .letter = 'l',
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(layers),
     .fallback = "32",
     .min = 1,
     .max = 65535,
     .group = "Model",
     .help = "Layers of the model, which are cut into stages as train would."},
    {.name = "bounds",
     .arg = "LAYER,...",
     .kind = ZL_OPTION_NUMBERS,
     FIELD(bounds),
     .max = 65535,
     .shown = "as train chooses them",
     .also = "cuts split-layers",
     .help = "First layer of each stage, beginning with 0."},
    {.name = "freeze",
     .arg = "none|STAGE,...",
     .kind = ZL_OPTION_NUMBERS,
     FIELD(freeze),
     .max = 63,
     .fallback = "none",
     .empty = "none",
     .help = "Stages of zerolock and sweep that only pass activations on."},
    {.name = "readout",
     .letter = 'r',
     .kind = ZL_OPTION_CHOICE,
     FIELD(readout),
     .choices = zl_readout_names,
     .fallback = "shadow",
     .help = "Readout of stages with losses of their own; shadow computes the look-ahead twice."},
    {.name = "look-ahead",
     .letter = 'j',
     .arg = "LAYERS",
     .kind = ZL_OPTION_COUNT,
     FIELD(look_ahead),
     .min = 1,
     .max = 65535,
     .shown = "two fifths of the model's layers",
     .help = "Layers that a shadow readout looks ahead through."},

    {.name = "costs-from",
     .arg = "TRACE",
     .kind = ZL_OPTION_STRING,
     FIELD(costs_from),
     .also = "from trace",
     .group = "Costs of a micro-batch on one core of speed 1",
     .help = "Take the costs, the layers and the micro-batches from a trace that train --trace wrote. Options given beside it win."},
    {.name = "layer-cost",
     .arg = "MS",
     .kind = ZL_OPTION_DOUBLE,
     FIELD(layer_ms),
     .fallback = "1",
     .above_min = true,
     .max = 1e9,
     .help = "Milliseconds of a layer's forward."},
    {.name = "backward-ratio",
     .arg = "NUMBER",
     .kind = ZL_OPTION_DOUBLE,
     FIELD(backward),
     .fallback = "1",
     .above_min = true,
     .max = 1000,
     .help = "Its backward, as a multiple of that; with frozen weights little more than 1."},
    {.name = "readout-cost",
     .arg = "MS",
     .kind = ZL_OPTION_DOUBLE,
     FIELD(readout_ms),
     .fallback = "2",
     .max = 1e9,
     .also = "head-cost",
     .help = "Milliseconds of final norm, head and loss, forward and backward, wherever a stage has a loss."},
    {.name = "update-cost",
     .arg = "MS",
     .kind = ZL_OPTION_DOUBLE,
     FIELD(update_ms),
     .fallback = "0",
     .max = 1e9,
     .help = "Milliseconds of the update of a layer's adapters, once a step."},
    {.name = "forward",
     .arg = "MS,...",
     .kind = ZL_OPTION_COMMAS,
     FIELD(forward),
     .shown = "by the layers",
     .help = "Forward of each stage, outright."},
    {.name = "loss",
     .arg = "MS,...",
     .kind = ZL_OPTION_COMMAS,
     FIELD(loss),
     .shown = "by the layers",
     .help = "Loss of each stage, with the forward of its look-ahead."},
    {.name = "backward",
     .arg = "MS,...",
     .kind = ZL_OPTION_COMMAS,
     FIELD(backwards),
     .shown = "by the layers",
     .help = "Backward of each stage, with that of its look-ahead."},
    {.name = "layer-memory",
     .arg = "SIZE",
     .kind = ZL_OPTION_SIZE,
     FIELD(layer_memory),
     .fallback = "1M",
     .min = 1,
     .max = 1e15,
     .help = "What a layer keeps of a micro-batch for its backward."},
    {.name = "input-memory",
     .arg = "SIZE",
     .kind = ZL_OPTION_SIZE,
     FIELD(input_memory),
     .fallback = "64K",
     .max = 1e15,
     .help = "A stage's input, which is all that async:replay=on keeps of a micro-batch that waits."},

    {.name = "cores",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(cores),
     .min = 1,
     .max = 4096,
     .shown = "one a stage",
     .also = "threads num-threads cpus",
     .group = "Machine",
     .help = "Equal cores, shared out over the stages."},
    {.name = "core-groups",
     .arg = "CORES[:SPEED],...",
     .kind = ZL_OPTION_COMMAS,
     FIELD(core_groups),
     .shown = "none",
     .also = "groups clusters",
     .help = "Cores that are not equal: groups of so many cores of that speed, as in 4,4:0.5 for big.LITTLE. Stages are spread over "
             "them in order."},
    {.name = "serial",
     .arg = "SHARE",
     .kind = ZL_OPTION_SHARE,
     FIELD(serial),
     .fallback = "0",
     .max = 1,
     .help = "Share of a stage's work that more cores do not shorten."},

    {.name = "columns",
     .arg = "NUMBER",
     .kind = ZL_OPTION_COUNT,
     FIELD(columns),
     .min = 10,
     .max = 10000,
     .shown = "the terminal's",
     .group = "Output",
     .help = "Width of the pictures."},
    {.name = "svg",
     .arg = "FILE",
     .kind = ZL_OPTION_STRING,
     FIELD(svg),
     .help = "Write the pictures to FILE as SVG, all on one scale of time."},
    {.name = "json", .kind = ZL_OPTION_FLAG, FIELD(json), .help = "Print one JSON object and no pictures."},
    {.name = "quiet", .letter = 'q', .kind = ZL_OPTION_FLAG, FIELD(quiet), .help = "No notes, only warnings and errors."},
};

static const char *const usage[] = {"[OPTION]...", NULL};

const struct zl_command zl_simulate_command = {
    .name = "simulate",
    .summary = "show schedules on paper: their pictures, bubbles and memory",
    .usage = usage,
    .about = "Compute what each stage would do when, for schedules, costs and machines that need not be here: time, idle time and live "
             "activations, with a picture. Nothing is run. zerolock(7) explains the schedules.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .given = offsetof(struct zl_simulate_options, given),
};

static int take_schedule(struct zl_scene *s, const struct zl_entry *e, struct zl_error *err)
{
    char known[128] = "";
    for (int i = 0; zl_schedule_names[i]; i++) {
        if (strcmp(zl_schedule_names[i], e->schedule) == 0) {
            s->kind = (enum zl_schedule_kind)i;
            return 0;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", !i ? "" : zl_schedule_names[i + 1] ? ", " : " and ", zl_schedule_names[i]);
    }
    return zl_fail(err, ZL_EUSAGE, "--schedules: there is no schedule '%s'; there are %s", e->schedule, known);
}

/* Milliseconds a stage as nanoseconds; NULL for none. */
static int take_costs(const struct zl_strings *list, const char *option, uint64_t stages, const double **out, struct zl_memory *m,
                      struct zl_error *err)
{
    *out = NULL;
    if (!list->n)
        return 0;
    if (list->n != stages)
        return zl_fail(err, ZL_EUSAGE, "--%s names %zu costs, but there are %llu stages", option, list->n, (unsigned long long)stages);
    double *ns = zl_memory_keep(m, calloc(stages, sizeof *ns));
    if (!ns)
        return zl_fail(err, ZL_EMEMORY, "no memory for the options");
    for (size_t k = 0; k < list->n; k++) {
        int rc = zl_number_double(list->v[k], option, &ns[k], err);
        if (rc)
            return rc;
        if (!(ns[k] >= 0) || ns[k] > 1e9)
            return zl_fail(err, ZL_EUSAGE, "--%s: %s is not between 0 and 1000000000", option, list->v[k]);
        ns[k] *= 1e6;
    }
    *out = ns;
    return 0;
}

static int take_groups(struct zl_scene *s, const struct zl_strings *list, struct zl_error *err)
{
    if (list->n > ZL_SIM_GROUPS)
        return zl_fail(err, ZL_EUSAGE, "--core-groups: %zu groups are more than %d", list->n, ZL_SIM_GROUPS);
    for (size_t g = 0; g < list->n; g++) {
        const char *colon = strchr(list->v[g], ':');
        char text[32];
        uint64_t cores;
        const size_t n = colon ? (size_t)(colon - list->v[g]) : strlen(list->v[g]);
        snprintf(text, sizeof text, "%.*s", (int)(n < sizeof text ? n : sizeof text - 1), list->v[g]);
        s->group[g].speed = 1;
        int rc = zl_number_u64(text, "--core-groups", &cores, err);
        if (!rc && colon)
            rc = zl_number_double(colon + 1, "--core-groups", &s->group[g].speed, err);
        if (rc)
            return rc;
        if (cores < 1 || cores > 4096 || !(s->group[g].speed > 0) || s->group[g].speed > 1e6)
            return zl_fail(err, ZL_EUSAGE, "--core-groups: '%s' is not like 4 or 4:0.5", list->v[g]);
        s->group[g].cores = (uint32_t)cores;
    }
    s->n_groups = (uint32_t)list->n;
    return 0;
}

static int fill(struct zl_simulation *x, struct zl_memory *m, struct zl_error *err)
{
    const struct zl_simulate_options *o = &x->o;
    struct zl_scene *s = &x->scene;
    int rc = take_schedule(s, &x->entry, err);
    if (rc)
        return rc;
    s->schedule = zl_schedule_make(s->kind, (uint32_t)o->lag, o->replay == ZL_ON);
    const bool interleaved = s->kind == ZL_SCHEDULE_1F1B;
    if (ZL_GIVEN(o, cores) && ZL_GIVEN(o, core_groups))
        return zl_fail(err, ZL_EUSAGE, "--cores and --core-groups both say which cores there are; give one of them");
    s->stages = o->stages;
    s->interleave = interleaved ? o->interleave : 1;
    s->micro = o->micro;
    s->steps = o->steps;
    s->ring_depth = o->ring_depth;
    s->window = o->window < o->steps ? o->window : o->steps;
    s->placement = o->placement;
    s->layers = o->layers;
    s->layer_ns = o->layer_ms * 1e6;
    s->backward = o->backward;
    s->readout_ns = o->readout_ms * 1e6;
    s->update_ns = o->update_ms * 1e6;
    s->layer_bytes = o->layer_memory;
    s->input_bytes = o->input_memory;
    s->readout = o->readout;
    s->look_ahead = o->look_ahead;
    s->bounds = o->bounds.v;
    s->n_bounds = (uint32_t)o->bounds.n;
    s->freeze = o->freeze.v;
    s->n_freeze = (uint32_t)o->freeze.n;
    s->cores = (uint32_t)(o->cores ? o->cores : o->stages);
    s->serial = o->serial;
    const uint64_t stages = s->schedule.single ? 1 : s->stages * s->interleave;
    rc = take_groups(s, &o->core_groups, err);
    if (!rc)
        rc = take_costs(&o->forward, "forward", stages, &s->forward_ns, m, err);
    if (!rc)
        rc = take_costs(&o->loss, "loss", stages, &s->loss_ns, m, err);
    if (!rc)
        rc = take_costs(&o->backwards, "backward", stages, &s->backward_ns, m, err);
    return rc;
}

int zl_simulation_make(struct zl_simulation *x, const char *entry, const struct zl_simulate_options *o, struct zl_memory *m,
                       struct zl_error *err)
{
    static const char *const without[] = {"schedules", "json", "svg", "columns", "quiet", "steps", NULL};
    x->o = *o;
    int rc = zl_entry_parse(entry, &x->entry, m, err);
    if (!rc)
        rc = zl_entry_apply(&x->entry, &zl_simulate_command, without, &x->o, m, err);
    if (!rc)
        rc = zl_simulate_costs(&x->o, err);
    if (!rc)
        rc = fill(x, m, err);
    return rc;
}
