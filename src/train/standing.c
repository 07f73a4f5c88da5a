/* The driver's text of a checkpoint: see standing.h. */
#include "train/standing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* ---- writing ------------------------------------------------------------------------------------- */

static void set(json_t *o, const char *key, json_t *value)
{
    json_object_set_new(o, key, value);
}

/* Sums may have run away: what JSON has no number for goes as a word. */
static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_string(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf");
}

static json_t *step_object(const struct zl_step_record *r, uint32_t stages)
{
    json_t *o = json_object(), *list = json_array();
    for (uint32_t k = 0; k < stages; k++) {
        json_t *s = json_object();
        set(s, "loss_sum", number(r->loss_sum[k]));
        set(s, "n", zl_json_count(r->n[k]));
        set(s, "grad_norm", number(r->grad_norm[k]));
        set(s, "skipped", json_boolean(r->skipped[k]));
        set(s, "updated", json_boolean(r->updated[k]));
        set(s, "done", json_boolean(r->done[k]));
        set(s, "micro", zl_json_count(r->n_micro[k]));
        set(s, "busy_seconds", number(r->busy_seconds[k]));
        json_array_append_new(list, s);
    }
    set(o, "step", zl_json_count(r->step));
    set(o, "bad", zl_json_count(r->bad));
    set(o, "unmoved", json_string(r->unmoved));
    set(o, "stages", list);
    return o;
}

static json_t *tally_object(const struct zl_tally *t)
{
    json_t *o = json_object();
    set(o, "steps", zl_json_count(t->steps_done));
    set(o, "evaluations", zl_json_count(t->evaluations));
    set(o, "tokens", zl_json_count(t->tokens_done));
    set(o, "seconds", number(t->seconds));
    set(o, "step_seconds", number(t->step_seconds));
    set(o, "first_eval", number(t->first_eval));
    set(o, "last_eval", number(t->last_eval));
    set(o, "last_eval_step", zl_json_count(t->last_eval_step));
    set(o, "peak_pss", zl_json_count(t->peak_pss));
    set(o, "peak_private", zl_json_count(t->peak_private));
    set(o, "skipped_in_a_row", zl_json_count(t->skipped_in_a_row));
    return o;
}

static json_t *running_object(const struct zl_running *r)
{
    json_t *o = json_object();
    set(o, "mean", number(r->mean));
    set(o, "variance", number(r->variance));
    set(o, "n", zl_json_count(r->n));
    return o;
}

static json_t *vitals_object(const struct zl_vitals *v)
{
    json_t *o = json_object();
    set(o, "step", zl_json_count(v->step));
    set(o, "loss", running_object(&v->loss));
    set(o, "norm", running_object(&v->norm));
    return o;
}

char *zl_standing_text(const struct zl_standing *s)
{
    json_t *o = json_object(), *next = json_object(), *begun = json_array(), *left_out = json_array(), *stages = json_array(),
           *eval = json_object();
    set(next, "step", zl_json_count(s->at.step));
    set(next, "phase", zl_json_count(s->at.phase));
    set(next, "index", zl_json_count(s->at.next));
    set(next, "micro", zl_json_count(s->micro));
    for (uint32_t i = 0; i < s->left_out.n; i++)
        json_array_append_new(left_out, zl_json_count(s->left_out.micro[i]));
    for (uint32_t i = 0; i < s->n_begun; i++)
        json_array_append_new(begun, step_object(&s->begun[i], s->n_stages));
    for (uint32_t k = 0; k < s->n_stages; k++) {
        json_t *c = json_object();
        set(c, "forwarded", zl_json_count(s->count[k].forwarded));
        set(c, "finished", zl_json_count(s->count[k].finished));
        set(c, "updates", zl_json_count(s->count[k].updates));
        json_array_append_new(stages, c);
    }
    set(eval, "step", zl_json_count(s->eval.step));
    set(eval, "loss_sum", number(s->eval.loss_sum));
    set(eval, "n", zl_json_count(s->eval.n));
    set(eval, "correct", zl_json_count(s->eval.correct));
    set(eval, "micro", zl_json_count(s->eval.micro_done));
    set(o, "next", next);
    set(o, "tally", tally_object(&s->tally));
    set(o, "vitals", vitals_object(&s->vitals));
    set(o, "stages", stages);
    set(o, "left_out", left_out);
    set(o, "begun", begun);
    set(o, "eval", eval);
    set(o, "halted", json_boolean(s->halted));
    set(o, "ring_depth", zl_json_count(s->ring_depth));
    set(o, "micro_batch_tokens", zl_json_count(s->micro_batch_tokens));
    set(o, "maps", json_string(s->maps));
    set(o, "isa", json_string(s->isa));
    json_object_set(o, "identity", (json_t *)(uintptr_t)s->identity);
    char *text = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(17));
    json_decref(o);
    return text;
}

/* ---- reading ------------------------------------------------------------------------------------- */

struct reader {
    struct zl_error *err;
    int rc;
};

static const json_t *get(struct reader *r, const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!v && !r->rc)
        r->rc = zl_fail(r->err, ZL_EINPUT, "the checkpoint's text lacks \"%s\"", key);
    return v;
}

static void *refuse(struct reader *r, const char *key)
{
    if (!r->rc)
        r->rc = zl_fail(r->err, ZL_EINPUT, "the checkpoint's text has no possible value for \"%s\"", key);
    return NULL;
}

static uint64_t count(struct reader *r, const json_t *o, const char *key, uint64_t most)
{
    const json_t *v = get(r, o, key);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || (uint64_t)json_integer_value(v) > most) {
        refuse(r, key);
        return 0;
    }
    return (uint64_t)json_integer_value(v);
}

static double real(struct reader *r, const json_t *o, const char *key)
{
    const json_t *v = get(r, o, key);
    const char *word = json_string_value(v);
    if (json_is_number(v))
        return json_number_value(v);
    if (word && strcmp(word, "nan") == 0)
        return (double)NAN;
    if (word && (strcmp(word, "inf") == 0 || strcmp(word, "-inf") == 0))
        return word[0] == '-' ? -(double)INFINITY : (double)INFINITY;
    refuse(r, key);
    return 0;
}

static bool boolean(struct reader *r, const json_t *o, const char *key)
{
    const json_t *v = get(r, o, key);
    if (!json_is_boolean(v))
        refuse(r, key);
    return json_is_true(v);
}

static void word(struct reader *r, const json_t *o, const char *key, char *out, size_t size)
{
    const char *s = json_string_value(get(r, o, key));
    if (!s || strlen(s) >= size)
        refuse(r, key);
    else
        memcpy(out, s, strlen(s) + 1);
}

static const json_t *list(struct reader *r, const json_t *o, const char *key, size_t most)
{
    const json_t *v = get(r, o, key);
    return json_is_array(v) && json_array_size(v) <= most ? v : refuse(r, key);
}

static void read_step(struct reader *r, const json_t *o, uint32_t stages, struct zl_step_record *s)
{
    const json_t *each = list(r, o, "stages", ZL_STAGES_MAX);
    *s = (struct zl_step_record){.step = count(r, o, "step", UINT64_MAX), .bad = count(r, o, "bad", UINT64_MAX)};
    word(r, o, "unmoved", s->unmoved, sizeof s->unmoved);
    if (json_array_size(each) != stages)
        refuse(r, "stages");
    for (uint32_t k = 0; k < stages && !r->rc; k++) {
        const json_t *e = json_array_get(each, k);
        s->loss_sum[k] = real(r, e, "loss_sum");
        s->n[k] = count(r, e, "n", UINT64_MAX);
        s->grad_norm[k] = real(r, e, "grad_norm");
        s->skipped[k] = boolean(r, e, "skipped");
        s->updated[k] = boolean(r, e, "updated");
        s->done[k] = boolean(r, e, "done");
        s->n_micro[k] = (uint32_t)count(r, e, "micro", UINT32_MAX);
        s->busy_seconds[k] = real(r, e, "busy_seconds");
        s->stages_done += s->done[k];
    }
}

static void read_lists(struct reader *r, const json_t *o, struct zl_standing *s)
{
    const json_t *left_out = list(r, o, "left_out", ZL_LEFT_OUT_MOST), *stages = list(r, o, "stages", ZL_STAGES_MAX),
                 *begun = list(r, o, "begun", 1u << 20);
    s->n_stages = (uint32_t)json_array_size(stages);
    s->n_begun = (uint32_t)json_array_size(begun);
    for (size_t i = 0; i < json_array_size(left_out); i++) {
        const json_t *m = json_array_get(left_out, i);
        if (!json_is_integer(m) || json_integer_value(m) < 0)
            refuse(r, "left_out");
        zl_left_out_add(&s->left_out, (uint64_t)json_integer_value(m));
    }
    for (uint32_t k = 0; k < s->n_stages; k++) {
        const json_t *c = json_array_get(stages, k);
        s->count[k] = (struct zl_stage_count){count(r, c, "forwarded", UINT64_MAX), count(r, c, "finished", UINT64_MAX),
                                              count(r, c, "updates", UINT64_MAX)};
    }
    struct zl_step_record *steps = calloc(s->n_begun + 1u, sizeof *steps);
    s->begun = steps;
    if (!steps && !r->rc)
        r->rc = zl_fail(r->err, ZL_EMEMORY, "out of memory");
    for (uint32_t i = 0; i < s->n_begun && !r->rc; i++)
        read_step(r, json_array_get(begun, i), s->n_stages, &steps[i]);
}

static struct zl_running read_running(struct reader *r, const json_t *o)
{
    return (struct zl_running){real(r, o, "mean"), real(r, o, "variance"), count(r, o, "n", UINT64_MAX)};
}

static double duration(struct reader *r, const json_t *o, const char *key)
{
    const double seconds = real(r, o, key);
    if (seconds >= 0 && seconds < 1e10)
        return seconds;
    refuse(r, key);
    return 0;
}

static void read_tally(struct reader *r, const json_t *o, struct zl_tally *t)
{
    t->evaluations = count(r, o, "evaluations", UINT64_MAX);
    t->steps_done = count(r, o, "steps", UINT64_MAX);
    t->tokens_done = count(r, o, "tokens", UINT64_MAX);
    t->seconds = duration(r, o, "seconds");
    t->step_seconds = duration(r, o, "step_seconds");
    t->first_eval = real(r, o, "first_eval");
    t->last_eval = real(r, o, "last_eval");
    t->last_eval_step = count(r, o, "last_eval_step", UINT64_MAX);
    t->peak_pss = count(r, o, "peak_pss", UINT64_MAX);
    t->peak_private = count(r, o, "peak_private", UINT64_MAX);
    t->skipped_in_a_row = (uint32_t)count(r, o, "skipped_in_a_row", UINT32_MAX);
}

int zl_standing_read(const char *text, uint64_t bytes, struct zl_standing *s, struct zl_error *err)
{
    struct reader r = {.err = err};
    *s = (struct zl_standing){0};
    json_t *o = json_loadb(text, (size_t)bytes, 0, NULL);
    if (!json_is_object(o)) {
        json_decref(o);
        return zl_fail(err, ZL_EINPUT, "the checkpoint's text is no JSON object");
    }
    const json_t *next = get(&r, o, "next"), *eval = get(&r, o, "eval"), *identity = get(&r, o, "identity");
    s->at = (struct zl_place){.step = count(&r, next, "step", UINT64_MAX), .phase = (uint32_t)count(&r, next, "phase", 3),
                              .next = count(&r, next, "index", UINT64_MAX)};
    s->micro = count(&r, next, "micro", UINT64_MAX);
    read_tally(&r, get(&r, o, "tally"), &s->tally);
    const json_t *vitals = get(&r, o, "vitals");
    s->vitals = (struct zl_vitals){count(&r, vitals, "step", UINT64_MAX), read_running(&r, get(&r, vitals, "loss")),
                                   read_running(&r, get(&r, vitals, "norm"))};
    read_lists(&r, o, s);
    s->eval = (struct zl_eval_record){.step = count(&r, eval, "step", UINT64_MAX), .loss_sum = real(&r, eval, "loss_sum"),
                                      .n = count(&r, eval, "n", UINT64_MAX), .correct = count(&r, eval, "correct", UINT64_MAX),
                                      .micro_done = count(&r, eval, "micro", UINT64_MAX)};
    s->halted = boolean(&r, o, "halted");
    s->ring_depth = count(&r, o, "ring_depth", 1024);
    s->micro_batch_tokens = count(&r, o, "micro_batch_tokens", UINT32_MAX);
    word(&r, o, "maps", s->maps, sizeof s->maps);
    word(&r, o, "isa", s->isa, sizeof s->isa);
    if (!json_is_object(identity))
        refuse(&r, "identity");
    else
        s->identity = json_incref((json_t *)(uintptr_t)identity);
    json_decref(o);
    if (r.rc)
        zl_standing_free(s);
    return r.rc;
}

void zl_standing_free(struct zl_standing *s)
{
    free((void *)(uintptr_t)s->begun);
    json_decref((json_t *)(uintptr_t)s->identity);
    *s = (struct zl_standing){0};
}
