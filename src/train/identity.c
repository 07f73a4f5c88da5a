/* What a run's result follows from: see identity.h. */
#include "train/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "kernel/isa.h"
#include "store/hash.h"

#define PAGE 4096u

/* Hashes of pieces, hashed together. */
struct digest {
    struct zl_hash piece[64];
    unsigned n;
};

static void close_pieces(struct digest *d)
{
    d->piece[0] = zl_hash_of(d->piece, d->n * sizeof d->piece[0]);
    d->n = 1;
}

static void add(struct digest *d, const void *data, uint64_t bytes)
{
    if (d->n == sizeof d->piece / sizeof d->piece[0])
        close_pieces(d);
    d->piece[d->n++] = bytes ? zl_hash_of(data, (size_t)bytes) : (struct zl_hash){{0}};
}

static json_t *text_of(struct digest *d)
{
    char text[2 * sizeof d->piece[0].byte + 1];
    close_pieces(d);
    for (size_t i = 0; i < sizeof d->piece[0].byte; i++)
        snprintf(text + 2 * i, 3, "%02x", d->piece[0].byte[i]);
    return json_string(text);
}

static json_t *hash_model(const struct zl_model *m)
{
    struct digest d = {.n = 0};
    add(&d, &m->config.layers, sizeof m->config.layers);
    for (size_t i = 0; i < zl_tensors_count(m->tensors); i++) {
        const struct zl_named_tensor *t = zl_tensors_at(m->tensors, i);
        const uint64_t bytes = t->t.bytes, n = bytes < PAGE ? bytes : PAGE;
        const unsigned char *data = t->t.data;
        add(&d, t->name, strlen(t->name));
        add(&d, t->type_name, strlen(t->type_name));
        add(&d, t->t.shape, sizeof t->t.shape);
        add(&d, data, n);
        add(&d, data + (bytes - n) / 2, n);
        add(&d, data + (bytes - n), n);
    }
    add(&d, m->rope, m->positions < 64 ? 0 : 64 * m->config.head_dim * sizeof *m->rope);
    return text_of(&d);
}

static json_t *hash_rows(const struct zl_dataset *data)
{
    struct digest d = {.n = 0};
    add(&d, data->tokens, data->n_tokens * sizeof *data->tokens);
    add(&d, data->trained, data->n_tokens * sizeof *data->trained);
    for (uint64_t i = 0; i < data->n_examples; i++)
        add(&d, &data->examples[i].n, sizeof data->examples[i].n);
    return text_of(&d);
}

static json_t *hash_adapter(const struct zl_adapter *a)
{
    struct digest d = {.n = 0};
    for (size_t i = 0; i < a->n; i++) {
        const struct zl_adapter_module *m = &a->modules[i];
        add(&d, m->name, strlen(m->name));
        add(&d, &m->scale, sizeof m->scale);
        add(&d, m->a, (uint64_t)m->r * m->in * sizeof *m->a);
        add(&d, m->b, (uint64_t)m->r * m->out * sizeof *m->b);
    }
    return text_of(&d);
}

static json_t *describe_cut(const struct zl_partition *p)
{
    json_t *list = json_array();
    for (uint32_t k = 0; k < p->n; k++) {
        const struct zl_cut *c = &p->cut[k];
        char text[96];
        snprintf(text, sizeof text, "%u..%u%s", c->first, c->first + c->n_own - 1, c->frozen ? " frozen" : "");
        if (c->n_shadow)
            snprintf(text + strlen(text), sizeof text - strlen(text), " looks %u ahead", c->n_shadow);
        if (c->map)
            strcat(text, " map");
        json_array_append_new(list, json_string(text));
    }
    return list;
}

static json_t *targets(const struct zl_setup *s)
{
    json_t *list = json_array();
    for (size_t i = 0; i < s->adapter_config.n_targets; i++)
        json_array_append_new(list, json_string(s->targets[i]));
    return list;
}

static bool trains_a_map(const struct zl_setup *s)
{
    bool maps = false;
    for (uint32_t k = 0; k < s->partition.n; k++)
        maps |= s->partition.cut[k].map;
    return maps && s->pipeline.train_map;
}

json_t *zl_identity_make(const struct zl_setup *s, const struct zl_train_options *o)
{
    static const char *const lr_schedules[] = {
        [ZL_LR_LINEAR] = "linear", [ZL_LR_COSINE] = "cosine", [ZL_LR_CONSTANT] = "constant"};
    const struct {
        const char *name;
        json_t *value;
    } all[] = {
        {"the model", hash_model(&s->corpus.model)},
        {"the training rows", hash_rows(&s->corpus.train)},
        {"the held-out rows", hash_rows(&s->corpus.held_out)},
        {"the adapter to start from", hash_adapter(&s->init)},
        {"the number of steps", zl_json_count(s->order.n_steps)},
        {"--batch-tokens", zl_json_count(s->batch_tokens)},
        {"--micro-batch-tokens", zl_json_count((uint64_t)s->pipeline.keep_tokens)},
        {"--schedule", json_string(zl_schedule_names[o->schedule])},
        {"the stages", describe_cut(&s->partition)},
        {"--local-vocabulary", zl_json_count((uint64_t)s->n_subset)},
        {"--train-layers", zl_json_count(s->corpus.model.config.layers - s->lora.first)},
        {"--train-map", json_boolean(trains_a_map(s))},
        {"--anchor", json_boolean(s->n_anchored > 0)},
        {"--belief-weight", json_real(o->belief_weight)},
        {"--vertical-sync", json_boolean(o->vertical_sync)},
        {"--lag", zl_json_count(s->schedule.lag)},
        {"--replay", json_boolean(s->schedule.weights == ZL_WEIGHTS_REPLAYED)},
        {"--spill-type", json_string(zl_spill_type_names[o->schedule == ZL_SCHEDULE_SWEEP || s->n_cached || s->n_anchored ? o->spill_type : ZL_SPILL_F32])},
        {"--activations", json_string(zl_activations_names[o->activations])},
        {"--preset", zl_json_count((uint64_t)o->preset)},
        {"--rank", zl_json_count(s->adapter_config.r)},
        {"--alpha", json_real(s->adapter_config.alpha)},
        {"--targets", targets(s)},
        {"--lr", json_real(o->lr)},
        {"--lr-schedule", json_string(lr_schedules[o->lr_schedule])},
        {"--warmup", json_real(o->warmup)},
        {"--weight-decay", json_real(o->weight_decay)},
        {"--beta1", json_real(o->beta1)},
        {"--beta2", json_real(o->beta2)},
        {"--adam-eps", json_real(o->adam_eps)},
        {"--clip", json_real(o->clip)},
        {"--max-spike", json_real(o->max_spike)},
        {"--compute", json_string(zl_compute_names[o->compute])},
        {"--seed", zl_json_count(o->seed)},
    };
    json_t *identity = json_object();
    bool whole = identity != NULL;
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        whole &= json_object_set_new(identity, all[i].name, all[i].value) == 0;
    if (!whole)
        json_decref(identity);
    return whole ? identity : NULL;
}

/* Numbers by their value as it is written down, so that reading a text back changes nothing. */
static char *spelled(const json_t *value)
{
    return value ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15)) : NULL;
}

static bool is_content(const json_t *value)
{
    return json_is_string(value) && strlen(json_string_value(value)) == 2 * sizeof(struct zl_hash);
}

unsigned zl_identity_compare(const json_t *then, const json_t *now, char *text, size_t size)
{
    const char *name;
    json_t *value;
    unsigned differences = 0;
    size_t at = 0;
    text[0] = '\0';
    json_object_foreach((json_t *)(uintptr_t)now, name, value)
    {
        const json_t *old = json_object_get(then, name);
        char *a = spelled(old), *b = spelled(value);
        if (!a || !b || strcmp(a, b) != 0) {
            int n;
            if (is_content(value))
                n = snprintf(text + at, size - at, "%s%s %s", differences ? "; " : "", name,
                             strstr(name, "rows") ? "are others than they were" : "is another than it was");
            else
                n = snprintf(text + at, size - at, "%s%s was %s and is %s", differences ? "; " : "", name, a ? a : "not known", b ? b : "not known");
            at += n > 0 && (size_t)n < size - at ? (size_t)n : 0;
            text[at] = '\0';
            differences++;
        }
        free(a);
        free(b);
    }
    return differences;
}
