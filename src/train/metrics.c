/* The objects of metrics.jsonl: see metrics.h. A number that is not finite becomes null, so that every line is valid JSON. */
#include "train/metrics.h"

#include <math.h>

static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *integer(uint64_t n)
{
    return json_integer((json_int_t)n);
}

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
        json_array_append_new(loss, number(mean(r->loss_sum[k], r->n[k])));
        json_array_append_new(norm, number(r->grad_norm[k]));
        json_array_append_new(busy, number(r->busy_seconds[k]));
        skipped += r->skipped[k];
        squares += r->grad_norm[k] * r->grad_norm[k];
    }
    json_object_set_new(o, "step", integer(r->step));
    json_object_set_new(o, "epoch", number(now->epoch));
    json_object_set_new(o, "loss", number(mean(r->loss_sum[stages - 1], r->n[stages - 1])));
    json_object_set_new(o, "stage_loss", loss);
    json_object_set_new(o, "lr", number(now->lr));
    json_object_set_new(o, "grad_norm", number(sqrt(squares)));
    json_object_set_new(o, "stage_grad_norm", norm);
    json_object_set_new(o, "tokens", integer(now->tokens));
    json_object_set_new(o, "trained_tokens", integer(now->trained_tokens));
    json_object_set_new(o, "tokens_total", integer(now->tokens_total));
    json_object_set_new(o, "seconds", number(now->seconds));
    json_object_set_new(o, "tokens_per_second", number(now->tokens_per_second));
    json_object_set_new(o, "stage_busy_seconds", busy);
    json_object_set_new(o, "stall_seconds", number(now->stall_seconds));
    json_object_set_new(o, "peak_pss_bytes", integer(now->peak_pss_bytes));
    json_object_set_new(o, "peak_private_bytes", integer(now->peak_private_bytes));
    if (skipped)
        json_object_set_new(o, "updates_skipped", integer(skipped));
    return o;
}

json_t *zl_metrics_eval(const struct zl_eval_record *r, double seconds)
{
    json_t *o = json_object();
    double loss = mean(r->loss_sum, r->n);
    json_object_set_new(o, "step", integer(r->step));
    json_object_set_new(o, "eval_loss", number(loss));
    json_object_set_new(o, "eval_perplexity", number(exp(loss)));
    json_object_set_new(o, "eval_token_accuracy", number(mean((double)r->correct, r->n)));
    json_object_set_new(o, "eval_tokens", integer(r->n));
    json_object_set_new(o, "seconds", number(seconds));
    return o;
}
