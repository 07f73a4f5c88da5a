/*
 * What the options of `zerolock train` mean together: presets, contradictions, values that follow from others, and notes about
 * options that change nothing in this run. Invariant: after it the options can be believed as they stand.
 */
#include "config.h"

#include <float.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/log.h"
#include "cmd/commands.h"
#include "format/quote.h"

typedef unsigned long long ull;

/* What a preset says, as the user would. */
static const struct {
    enum zl_preset preset;
    const char *name, *value;
} preset_values[] = {
    {ZL_PRESET_PAPER, "readout", "lens"},
    {ZL_PRESET_PAPER, "local-vocabulary", "full"},
    {ZL_PRESET_PAPER, "rank", "4"},
    {ZL_PRESET_PAPER, "alpha", "16"},
    {ZL_PRESET_PAPER, "targets", "q_proj,v_proj"},
};

static const struct zl_option *find(const char *name)
{
    return zl_option_find(&zl_train_command, name, strlen(name));
}

static int apply_preset(struct zl_train_options *o, struct zl_memory *m, struct zl_error *err)
{
    for (size_t i = 0; i < sizeof preset_values / sizeof preset_values[0]; i++) {
        const struct zl_option *option = find(preset_values[i].name);
        if (preset_values[i].preset != o->preset || o->given.at[option->offset])
            continue;
        int rc = zl_option_set(option, preset_values[i].value, option->name, o, m, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int check_bounds(struct zl_train_options *o, struct zl_error *err)
{
    const struct zl_numbers *b = &o->bounds;
    if (!b->n)
        return 0;
    if (o->interleave > 1)
        return b->n % o->interleave ? zl_fail(err, ZL_EUSAGE, "--bounds lists %zu parts, which %llu in each stage (--interleave) do not divide",
                                              b->n, (ull)o->interleave)
                                    : (o->stages = b->n / o->interleave, 0);
    if (ZL_GIVEN(o, stages) && o->stages != b->n)
        return zl_fail(err, ZL_EUSAGE, "--bounds lists %zu stages, but --stages says %llu", b->n, (ull)o->stages);
    if (b->n > 64)
        return zl_fail(err, ZL_EUSAGE, "--bounds lists %zu stages, but 64 are the most", b->n);
    if (b->v[0] != 0)
        return zl_fail(err, ZL_EUSAGE, "--bounds begins with layer %llu, but the first stage begins with layer 0", (ull)b->v[0]);
    for (size_t i = 1; i < b->n; i++)
        if (b->v[i] <= b->v[i - 1])
            return zl_fail(err, ZL_EUSAGE, "--bounds goes from %llu to %llu, but each stage begins after the one before",
                           (ull)b->v[i - 1], (ull)b->v[i]);
    o->stages = b->n;
    return 0;
}

static int check_freeze(const struct zl_train_options *o, struct zl_error *err)
{
    uint64_t frozen = 0;
    if (zl_freeze_auto(o))
        return o->schedule != ZL_SCHEDULE_SWEEP ? 0
               : zl_fail(err, ZL_EUSAGE, "--freeze auto needs a probe of the whole pipeline, which --schedule sweep does not hold in memory");
    for (size_t i = 0; i < o->freeze.n; i++) {
        if (o->freeze.v[i] >= o->stages)
            return zl_fail(err, ZL_EUSAGE, "--freeze names stage %llu, but there are %llu stages, counted from 0",
                           (ull)o->freeze.v[i], (ull)o->stages);
        frozen |= UINT64_C(1) << o->freeze.v[i];
    }
    if ((uint64_t)__builtin_popcountll(frozen) == o->stages)
        return zl_fail(err, ZL_EUSAGE, "--freeze names every stage, so nothing would train");
    return 0;
}

/* A stage finds its own input, and what a map makes of it, but not what the one before sees through its look-ahead. */
static int check_readout(const struct zl_train_options *o, struct zl_error *err)
{
    if (o->belief_weight < 1 && o->readout == ZL_READOUT_SHADOW)
        return zl_fail(err, ZL_EUSAGE, "--belief-weight needs --readout lens or ridge: with shadow a stage has handed its output on before its own "
                                       "look-ahead tells what it predicts");
    if (o->belief_weight < 1 && o->readout == ZL_READOUT_RIDGE && o->schedule == ZL_SCHEDULE_SWEEP)
        return zl_fail(err, ZL_EUSAGE, "--belief-weight with --schedule sweep needs --readout lens: one map is in memory at a time");
    if (o->belief_weight < 1 && o->anchor)
        return zl_fail(err, ZL_EUSAGE, "--belief-weight and --anchor on exclude each other: a stage does not know what the one before is anchored to");
    if (o->belief_weight < 1 && o->train_map && ZL_GIVEN(o, train_map))
        return zl_fail(err, ZL_EUSAGE, "--belief-weight and --train-map on exclude each other: a stage does not know how the map of the one before has trained");
    if (o->anchor && o->schedule == ZL_SCHEDULE_SWEEP)
        return zl_fail(err, ZL_EUSAGE, "--anchor on needs a pass of the whole model, which --schedule sweep does not hold in memory");
    return 0;
}

/* Numbers that the arithmetic takes in float32: one that becomes 0, 1 or infinite there would mean something else than it says (a clip
 * of 0 never clips, a beta of 1 divides by 0). */
static int check_float32(const struct zl_train_options *o, struct zl_error *err)
{
    const struct {
        const char *name;
        double value;
        bool below_one;
    } numbers[] = {{"lr", o->lr, false},           {"alpha", o->alpha / (double)o->rank, false}, {"weight-decay", o->weight_decay, false},
                   {"beta1", o->beta1, true},      {"beta2", o->beta2, true},                    {"adam-eps", o->adam_eps, false},
                   {"clip", o->clip, false}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const float f = (float)numbers[i].value;
        if (numbers[i].value != 0 && fabsf(f) < FLT_MIN)
            return zl_fail(err, ZL_EUSAGE, "--%s is too small for float32, in which training computes", numbers[i].name);
        if (!isfinite(f) || (numbers[i].below_one && f >= 1))
            return zl_fail(err, ZL_EUSAGE, "--%s is too %s for float32, in which training computes", numbers[i].name,
                           numbers[i].below_one ? "close to 1" : "large");
    }
    return 0;
}

/* config.yaml, run.json and adapter_config.json name these, and hold UTF-8 only. */
static int check_names(const struct zl_train_options *o, struct zl_error *err)
{
    const char *const names[] = {o->model, o->output, o->eval_data, o->init_adapter, o->spill_dir};
    for (size_t i = 0; i < sizeof names / sizeof names[0] + o->data.n; i++) {
        const char *name = i < sizeof names / sizeof names[0] ? names[i] : o->data.v[i - sizeof names / sizeof names[0]];
        json_t *string = name ? json_string(name) : NULL;
        if (name && !string)
            return zl_fail(err, ZL_EUSAGE, "the name '%s' is not valid UTF-8, so the run's files could not name it; rename it or link to it",
                           zl_quote(name).s);
        json_decref(string);
    }
    return 0;
}

/* A micro-batch is a part of a step. What the user gave is not changed: a contradiction is an error; the default gives way. */
static int settle_sizes(struct zl_train_options *o, struct zl_error *err)
{
    if (!o->batch_tokens || o->micro_batch_tokens <= o->batch_tokens)
        return 0;
    if (ZL_GIVEN(o, micro_batch_tokens))
        return zl_fail(err, ZL_EUSAGE, "--micro-batch-tokens %llu is more than the %llu of --batch-tokens",
                       (ull)o->micro_batch_tokens, (ull)o->batch_tokens);
    o->micro_batch_tokens = o->batch_tokens;
    return 0;
}

/* Options that change nothing in a run of this kind. */
enum {
    WITH_BP,
    WITH_SWEEP,
    WITHOUT_SWEEP,
    WITHOUT_SPILL,
    WITHOUT_FROZEN,
    WITHOUT_LOCAL_LOSSES,
    WITHOUT_INTERLEAVING,
    WITHOUT_STASH,
    WITHOUT_LAG,
    WITH_ONE_STAGE,
    WITH_EXACT_LAYERS, WITHOUT_SHADOW, WITH_LENS,
    WITHOUT_EVALUATION,
    WITH_ADAPTER,
    CASES
};

static const struct {
    const char *because;
    const char *names[12];
} without_effect[CASES] = {
    [WITH_BP] = {"with --schedule bp",
                 {"stages", "bounds", "freeze", "readout", "look-ahead", "local-vocabulary", "train-map", "anchor", "belief-weight", "ring-depth", "placement"}},
    [WITH_SWEEP] = {"with --schedule sweep", {"ring-depth", "placement"}},
    [WITHOUT_SWEEP] = {"without --schedule sweep", {"window"}},
    [WITHOUT_SPILL] = {"without --schedule sweep, --cache-frozen or --anchor on", {"spill-dir", "spill-limit", "spill-type"}},
    [WITHOUT_FROZEN] = {"where stage 0 is not frozen", {"cache-frozen"}},
    [WITHOUT_LOCAL_LOSSES] = {"without local losses: that is --schedule zerolock",
                              {"freeze", "readout", "look-ahead", "local-vocabulary", "train-map", "anchor", "belief-weight"}},
    [WITHOUT_INTERLEAVING] = {"without --schedule 1f1b", {"interleave"}},
    [WITHOUT_STASH] = {"without --schedule pipedream", {"vertical-sync"}},
    [WITHOUT_LAG] = {"without --schedule async", {"lag", "replay"}},
    [WITH_ONE_STAGE] = {"with one stage", {"readout", "look-ahead", "local-vocabulary", "train-map", "anchor", "belief-weight", "ring-depth"}},
    [WITH_EXACT_LAYERS] = {"with --train-layers, whose layers are one stage", {"readout", "look-ahead", "local-vocabulary", "train-map", "anchor", "belief-weight"}},
    [WITHOUT_SHADOW] = {"without --readout shadow", {"look-ahead"}},
    [WITH_LENS] = {"with --readout lens, which has no map", {"train-map"}},
    [WITHOUT_EVALUATION] = {"without --eval-data or --eval-split", {"eval-every"}},
    [WITH_ADAPTER] = {"with --init-adapter, which brings its own", {"rank", "alpha", "targets"}},
};

static bool first_frozen(const struct zl_train_options *o)
{
    for (size_t i = 0; i < o->freeze.n; i++)
        if (o->freeze.v[i] == 0 || zl_freeze_auto(o))
            return true;
    return false;
}

/* With fewer than the model has, as far as is known here. */
static bool exact_layers(const struct zl_train_options *o)
{
    return o->train_layers && !o->bounds.n && o->preset != ZL_PRESET_PAPER;
}

static void note_without_effect(const struct zl_train_options *o)
{
    const struct zl_schedule *schedule = &zl_schedules[o->schedule];
    bool bp = schedule->single, one = !bp && o->stages == 1;
    const bool exact = exact_layers(o);
    const bool holds[CASES] = {
        [WITH_BP] = bp,
        [WITH_SWEEP] = o->schedule == ZL_SCHEDULE_SWEEP,
        [WITHOUT_SWEEP] = o->schedule != ZL_SCHEDULE_SWEEP,
        [WITHOUT_SPILL] = o->schedule != ZL_SCHEDULE_SWEEP && !o->cache_frozen && !o->anchor,
        [WITHOUT_FROZEN] = !first_frozen(o) && !(o->train_layers && !bp),
        [WITHOUT_LOCAL_LOSSES] = !bp && !schedule->local,
        [WITHOUT_INTERLEAVING] = o->schedule != ZL_SCHEDULE_1F1B,
        [WITHOUT_STASH] = o->schedule != ZL_SCHEDULE_PIPEDREAM,
        [WITHOUT_LAG] = o->schedule != ZL_SCHEDULE_ASYNC,
        [WITH_ONE_STAGE] = one && schedule->local,
        [WITH_EXACT_LAYERS] = schedule->local && !one && exact,
        [WITHOUT_SHADOW] = schedule->local && !one && !exact && o->readout != ZL_READOUT_SHADOW,
        [WITH_LENS] = schedule->local && !one && !exact && o->readout == ZL_READOUT_LENS,
        [WITHOUT_EVALUATION] = !o->eval_data && !(o->eval_split > 0),
        [WITH_ADAPTER] = o->init_adapter != NULL,
    };
    for (int i = 0; i < CASES; i++)
        for (const char *const *name = without_effect[i].names; holds[i] && *name; name++)
            if (o->given.at[find(*name)->offset])
                zl_note("--%s has no effect %s", *name, without_effect[i].because);
}

/* A map takes four times its size to train, which a sweep spares unless it is asked for; to a stage's belief it must be what was fitted. */
static bool keeps_map(const struct zl_train_options *o)
{
    return zl_schedules[o->schedule].local && (o->belief_weight < 1 || (o->schedule == ZL_SCHEDULE_SWEEP && !ZL_GIVEN(o, train_map)));
}

int zl_train_options_settle(struct zl_train_options *o, struct zl_memory *m, struct zl_error *err)
{
    if (ZL_GIVEN(o, steps) && ZL_GIVEN(o, epochs))
        return zl_fail(err, ZL_EUSAGE, "--steps and --epochs both say how long to train; give one of them");
    if (ZL_GIVEN(o, eval_data) && ZL_GIVEN(o, eval_split))
        return zl_fail(err, ZL_EUSAGE, "--eval-data and --eval-split both choose the held-out rows; give one of them");
    int rc = settle_sizes(o, err);
    if (rc == 0)
        rc = check_names(o, err);
    if (rc == 0)
        rc = apply_preset(o, m, err);
    if (rc == 0)
        rc = check_float32(o, err);
    if (rc)
        return rc;
    const struct zl_schedule *schedule = &zl_schedules[o->schedule];
    note_without_effect(o);
    if (o->schedule != ZL_SCHEDULE_1F1B)
        o->interleave = 1;
    o->vertical_sync = o->vertical_sync && o->schedule == ZL_SCHEDULE_PIPEDREAM;
    if (o->schedule != ZL_SCHEDULE_ASYNC) {
        o->lag = 1;
        o->replay = ZL_OFF;
    }
    if (!schedule->local)
        o->freeze = (struct zl_numbers){0};
    if (!schedule->local || o->stages == 1 || exact_layers(o))
        o->anchor = ZL_OFF;
    if (zl_freeze_auto(o) && (o->stages == 1 || exact_layers(o)))
        o->freeze = (struct zl_numbers){0};
    if (schedule->single) {
        o->stages = 1;
        o->bounds = (struct zl_numbers){0};
    }
    if (!schedule->single)
        rc = check_bounds(o, err);
    if (rc == 0 && schedule->local)
        rc = check_freeze(o, err);
    if (rc == 0 && schedule->local && o->stages > 1)
        rc = check_readout(o, err);
    if (keeps_map(o))
        o->train_map = ZL_OFF;
    return rc;
}
