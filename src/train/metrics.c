/* The objects of metrics.jsonl: see metrics.h. A number that is not finite becomes null, so that every line is valid JSON. */
#include "train/metrics.h"

#include <math.h>

#include "base/json.h"

static double mean(double sum, uint64_t n)
{
    return n ? sum / (double)n : (double)NAN;
}

json_t *zl_metrics_step(const struct zl_step_record *r, uint32_t stages, const struct zl_moment *now)
{
    json_t *o = json_object(), *loss = json_array(), *norm = json_array(), *busy = json_array();
    uint32_t skipped = 0;
    double squares = 0;
    for (uint32_t k = 0; k < stages; k++) {
        json_array_append_new(loss, zl_json_number(mean(r->loss_sum[k], r->n[k])));
        json_array_append_new(norm, zl_json_number(r->grad_norm[k]));
        json_array_append_new(busy, zl_json_number(r->busy_seconds[k]));
        skipped += r->skipped[k];
        squares += r->grad_norm[k] * r->grad_norm[k];
    }
    json_object_set_new(o, "step", zl_json_count(r->step));
    json_object_set_new(o, "epoch", zl_json_number(now->epoch));
    json_object_set_new(o, "loss", zl_json_number(mean(r->loss_sum[stages - 1], r->n[stages - 1])));
    json_object_set_new(o, "stage_loss", loss);
    json_object_set_new(o, "lr", zl_json_number(now->lr));
    json_object_set_new(o, "grad_norm", zl_json_number(sqrt(squares)));
    json_object_set_new(o, "stage_grad_norm", norm);
    json_object_set_new(o, "tokens", zl_json_count(now->tokens));
    json_object_set_new(o, "trained_tokens", zl_json_count(now->trained_tokens));
    json_object_set_new(o, "tokens_total", zl_json_count(now->tokens_total));
    json_object_set_new(o, "seconds", zl_json_number(now->seconds));
    json_object_set_new(o, "tokens_per_second", zl_json_number(now->tokens_per_second));
    json_object_set_new(o, "stage_busy_seconds", busy);
    json_object_set_new(o, "stall_seconds", zl_json_number(now->stall_seconds));
    json_object_set_new(o, "checkpoint_seconds", zl_json_number(now->checkpoint_seconds));
    json_object_set_new(o, "peak_pss_bytes", zl_json_count(now->peak_pss_bytes));
    json_object_set_new(o, "peak_private_bytes", zl_json_count(now->peak_private_bytes));
    if (skipped)
        json_object_set_new(o, "updates_skipped", zl_json_count(skipped));
    return o;
}

json_t *zl_metrics_eval(const struct zl_eval_record *r, double seconds)
{
    json_t *o = json_object();
    double loss = mean(r->loss_sum, r->n);
    json_object_set_new(o, "step", zl_json_count(r->step));
    json_object_set_new(o, "eval_loss", zl_json_number(loss));
    json_object_set_new(o, "eval_perplexity", zl_json_number(exp(loss)));
    json_object_set_new(o, "eval_token_accuracy", zl_json_number(mean((double)r->correct, r->n)));
    json_object_set_new(o, "eval_tokens", zl_json_count(r->n));
    json_object_set_new(o, "seconds", zl_json_number(seconds));
    return o;
}
