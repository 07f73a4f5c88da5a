/* What a setup says of itself in run.json: see zl_setup_describe() in setup.h. */
#include "config.h"

#include "train/setup.h"

#include "base/json.h"

static json_t *describe_stages(const struct zl_setup *s)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < s->partition.n; k++) {
        const struct zl_cut *c = &s->partition.cut[k];
        json_t *cpus = json_array(), *o = json_object();
        const uint32_t worker = s->places.worker_of[k], first = s->places.common ? 0 : worker;
        for (uint32_t w = first; w < (s->places.common ? s->places.n_workers : worker + 1); w++)
            for (int i = 0; i < s->groups[w].n; i++)
                json_array_append_new(cpus, json_integer(s->groups[w].cpu[i]));
        json_object_set_new(o, "worker", s->places.common ? json_null() : zl_json_count(worker));
        json_object_set_new(o, "threads", json_integer(s->groups[worker].n));
        json_object_set_new(o, "in_flight", zl_json_count(s->plan.in_flight[k]));
        json_object_set_new(o, "waiting_bytes", zl_json_count(s->plan.waiting_bytes[k]));
        json_object_set_new(o, "first_layer", zl_json_count(c->first));
        json_object_set_new(o, "layers", zl_json_count(c->n_own));
        json_object_set_new(o, "look_ahead", zl_json_count(c->n_shadow));
        json_object_set_new(o, "map", json_boolean(c->map));
        json_object_set_new(o, "frozen", json_boolean(c->frozen));
        json_object_set_new(o, "cpus", cpus);
        json_object_set_new(o, "state_bytes", zl_json_count(s->plan.block[k].state_bytes));
        json_object_set_new(o, "activation_bytes", zl_json_count(s->plan.block[k].activation_bytes));
        json_object_set_new(o, "scratch_bytes", zl_json_count(s->plan.block[k].scratch_bytes));
        json_array_append_new(list, o);
    }
    return list;
}

json_t *zl_setup_describe(const struct zl_setup *s, const struct zl_train_options *o)
{
    json_t *r = json_object(), *data = json_array(), *targets = json_array();
    for (size_t i = 0; i < o->data.n; i++)
        json_array_append_new(data, json_string(o->data.v[i]));
    for (size_t i = 0; i < s->adapter_config.n_targets; i++)
        json_array_append_new(targets, json_string(s->targets[i]));
    json_object_set_new(r, "zerolock", json_string(PACKAGE_VERSION));
    json_object_set_new(r, "model", json_string(o->model));
    json_object_set_new(r, "data", data);
    json_object_set_new(r, "schedule", json_string(zl_schedule_names[o->schedule]));
    json_object_set_new(r, "placement", json_string(zl_placement_names[s->placement]));
    if (o->schedule == ZL_SCHEDULE_ASYNC) {
        json_object_set_new(r, "lag", zl_json_count(s->schedule.lag));
        json_object_set_new(r, "replay", json_boolean(s->schedule.weights == ZL_WEIGHTS_REPLAYED));
    }
    if (zl_schedules[o->schedule].local && s->partition.n > 1)
        json_object_set_new(r, "readout", json_string(zl_readout_names[o->readout]));
    json_object_set_new(r, "stages", describe_stages(s));
    json_object_set_new(r, "rank", zl_json_count(s->adapter_config.r));
    json_object_set_new(r, "alpha", json_real(s->adapter_config.alpha));
    json_object_set_new(r, "targets", targets);
    json_object_set_new(r, "first_trained_layer", zl_json_count(s->lora.first));
    json_object_set_new(r, "steps", zl_json_count(s->order.n_steps));
    json_object_set_new(r, "batch_tokens", zl_json_count(s->batch_tokens));
    json_object_set_new(r, "micro_batches", zl_json_count(s->order.n_micro));
    json_object_set_new(r, "examples", zl_json_count(s->corpus.train.n_examples));
    json_object_set_new(r, "held_out_examples", zl_json_count(s->corpus.held_out.n_examples));
    json_object_set_new(r, "largest_micro_batch_tokens", json_integer(s->pipeline.tokens));
    json_object_set_new(r, "local_vocabulary", json_integer(s->n_subset));
    json_object_set_new(r, "anchored_stages", zl_json_count(s->n_anchored));
    json_object_set_new(r, "map_tokens", zl_json_count(s->readouts.tokens));
    json_object_set_new(r, "lr", json_real(o->lr));
    json_object_set_new(r, "seed", zl_json_count(o->seed));
    json_object_set_new(r, "activations", json_string(zl_activations_names[o->activations]));
    json_object_set_new(r, "recompute", json_string(zl_recompute_names[s->pipeline.recompute]));
    json_object_set_new(r, "compute", json_string(zl_compute_names[s->pipeline.compute]));
    json_object_set_new(r, "checkpoint_bytes", zl_json_count(s->checkpoint_file_bytes));
    json_object_set_new(r, "planned_bytes", zl_json_count(s->plan.total_bytes));
    json_object_set_new(r, "expected_bytes", zl_json_count(zl_setup_expected_bytes(s)));
    json_object_set_new(r, "weight_bytes", zl_json_count(s->corpus.model.weight_bytes));
    return r;
}
