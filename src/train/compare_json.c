/* The results of a comparison as JSON: see compare.h. Numbers that were not measured are null. */
#include <stdio.h>

#include "base/json.h"
#include "train/compare.h"

static json_t *json_stages(const struct zl_compared *c)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < c->costs.stages; k++) {
        json_t *o = json_object();
        for (int kind = 0; kind <= ZL_TRACE_REPLAY; kind++) {
            char key[48];
            snprintf(key, sizeof key, "%s_seconds", zl_trace_names[kind]);
            for (char *s = key; *s; s++)
                *s = *s == ' ' ? '_' : *s;
            json_object_set_new(o, key, zl_json_number(zl_trace_mean(&c->costs, k, (enum zl_trace_kind)kind) * 1e-9));
        }
        json_object_set_new(o, "worker", c->costs.stage[k].roams ? json_null() : zl_json_count(c->costs.stage[k].worker));
        json_object_set_new(o, "peak_activation_bytes", zl_json_count(c->costs.stage[k].peak_bytes));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *json_evals(const struct zl_compared *c)
{
    json_t *list = json_array();
    for (size_t i = 0; i < c->n_evals; i++) {
        json_t *o = json_object();
        json_object_set_new(o, "step", zl_json_count(c->eval[i].step));
        json_object_set_new(o, "tokens", zl_json_count(c->eval[i].tokens));
        json_object_set_new(o, "seconds", zl_json_number(c->eval[i].seconds));
        json_object_set_new(o, "loss", zl_json_number(c->eval[i].loss));
        json_array_append_new(list, o);
    }
    return list;
}

json_t *zl_compare_json(const struct zl_compare_request *r, const struct zl_compared *c, const char *command)
{
    json_t *root = json_object(), *list = json_array();
    json_object_set_new(root, "command", json_string(command));
    json_object_set_new(root, "runs", list);
    for (size_t i = 0; i < r->n; i++) {
        json_t *o = json_object();
        json_array_append_new(list, o);
        json_object_set_new(o, "entry", json_string(r->contender[i].name));
        json_object_set_new(o, "folder", c[i].dir ? json_string(c[i].dir) : json_null());
        json_object_set_new(o, "problem", c[i].problem ? json_string(c[i].problem) : json_null());
        if (c[i].problem)
            continue;
        json_object_set_new(o, "steps", zl_json_count(c[i].steps));
        json_object_set_new(o, "tokens", zl_json_count(c[i].tokens));
        json_object_set_new(o, "tokens_per_second", zl_json_number(c[i].tokens_per_second));
        json_object_set_new(o, "idle", zl_json_number(c[i].idle));
        json_object_set_new(o, "idle_after_fill", zl_json_number(c[i].idle_after_fill));
        json_object_set_new(o, "peak_activation_bytes", zl_json_count(c[i].costs.peak_bytes));
        json_object_set_new(o, "peak_pss_bytes", zl_json_count(c[i].peak_pss_bytes));
        json_object_set_new(o, "peak_private_bytes", zl_json_count(c[i].peak_private_bytes));
        json_object_set_new(o, "train_loss", zl_json_number(c[i].loss));
        json_object_set_new(o, "stages", json_stages(&c[i]));
        json_object_set_new(o, "held_out", json_evals(&c[i]));
    }
    return root;
}
