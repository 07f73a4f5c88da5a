/*
 * The costs of a real run for `zerolock simulate`: from the spans of its trace, and from what the trace says about the run's stages, the
 * costs of one layer, of the readout and of the update on one core. A run with any schedule and cut will do.
 */
#include "config.h"

#include <jansson.h>

#include "cmd/commands.h"
#include "cmd/simulate.h"
#include "train/trace_costs.h"

static int refuse(const struct zl_simulate_options *o, const char *what, struct zl_error *err)
{
    return zl_fail(err, ZL_EINPUT, "%s: %s", o->costs_from, what);
}

static uint64_t count_of(const json_t *o, const char *key)
{
    const json_int_t v = json_integer_value(json_object_get(o, key));
    return v > 0 ? (uint64_t)v : 0;
}

/* Sums over stages, in core time. */
struct sums {
    double forward, backward, update, layers, trained, bytes, kept, readout;
};

static void add_stage(struct sums *x, const json_t *stage, const struct zl_trace_costs *c, uint32_t k)
{
    const double cores = (double)count_of(stage, "threads");
    const double own = (double)count_of(stage, "layers"), ahead = (double)count_of(stage, "look_ahead");
    const double slots = (double)count_of(stage, "in_flight");
    x->forward += cores * zl_trace_mean(c, k, ZL_TRACE_FORWARD);
    x->layers += own;
    x->update += cores * zl_trace_mean(c, k, ZL_TRACE_UPDATE);
    x->bytes += (double)count_of(stage, "activation_bytes");
    x->kept += (own + ahead) * (slots > 1 ? slots : 1);
    if (json_is_true(json_object_get(stage, "frozen")))
        return;
    x->backward += cores * zl_trace_mean(c, k, ZL_TRACE_BACKWARD);
    x->trained += own + ahead; /* the backward of the look-ahead is a part of the stage's */
    if (k + 1 == c->stages)
        x->readout = cores * zl_trace_mean(c, k, ZL_TRACE_LOCAL_LOSS);
}

static int take(struct zl_simulate_options *o, const struct zl_traced *t, const struct zl_trace_costs *c, struct zl_error *err)
{
    const json_t *stages = json_object_get(t->about, "stages");
    struct sums x = {0};
    if (json_array_size(stages) != c->stages)
        return refuse(o, "its otherData does not describe the stages of the trace", err);
    for (uint32_t k = 0; k < c->stages; k++)
        add_stage(&x, json_array_get(stages, k), c, k);
    if (!(x.layers >= 1) || x.layers > 65535 || !(x.trained >= 1) || !(x.forward > 0) || !(x.backward > 0))
        return refuse(o, "it does not say what a layer costs", err);
    const double layer = x.forward / x.layers;
    if (!ZL_GIVEN(o, layers))
        o->layers = (uint64_t)x.layers;
    if (!ZL_GIVEN(o, layer_ms))
        o->layer_ms = layer * 1e-6;
    if (!ZL_GIVEN(o, backward))
        o->backward = x.backward / x.trained / layer;
    if (!ZL_GIVEN(o, readout_ms))
        o->readout_ms = x.readout * 1e-6;
    if (!ZL_GIVEN(o, update_ms))
        o->update_ms = x.update / x.trained * 1e-6;
    if (!ZL_GIVEN(o, layer_memory) && x.bytes > 0)
        o->layer_memory = (uint64_t)(x.bytes / x.kept);
    if (!ZL_GIVEN(o, stages) && c->stages > 1)
        o->stages = c->stages;
    const uint64_t micro = count_of(t->about, "micro_batches"), steps = count_of(t->about, "steps");
    if (!ZL_GIVEN(o, micro) && steps && micro / steps)
        o->micro = (micro + steps / 2) / steps;
    return 0;
}

int zl_simulate_costs(struct zl_simulate_options *o, struct zl_error *err)
{
    struct zl_traced t;
    struct zl_trace_costs c;
    if (!o->costs_from)
        return 0;
    int rc = zl_trace_read(o->costs_from, &t, err);
    if (rc)
        return rc;
    rc = zl_trace_costs(&t, o->costs_from, &c, err);
    if (!rc)
        rc = take(o, &t, &c, err);
    zl_traced_free(&t);
    return rc;
}
