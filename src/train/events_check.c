/* The proof from a run's events: see events_check.h. */
#include "train/events_check.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "store/append.h"
#include "store/generation.h"
#include "train/standing.h"

#define STEPS_MOST (1u << 28)

struct step { /* what counts of a step */
    uint64_t first, end; /* micro-batches that were admitted; those left out are among them */
    bool updated[ZL_STAGES_MAX];
};

struct cut {
    uint64_t generation, micro;
    struct zl_stage_count count[ZL_STAGES_MAX];
};

struct ledger {
    const char *path;
    struct zl_error *err;
    struct zl_events_proof *proof;
    bool begun;
    uint64_t n_micro;
    uint64_t next;            /* micro-batch to be admitted */
    struct step *step;        /* [steps + 1] */
    struct cut *cut;
    size_t n_cuts;
    struct zl_left_out left_out;
};

static int refuse(struct ledger *l, const char *what)
{
    return zl_fail(l->err, ZL_EINPUT, "%s:%llu: %s", l->path, (unsigned long long)l->proof->lines, what);
}

/* A number of the line; *ok turns false without one. */
static uint64_t number(const json_t *o, const char *key, bool *ok)
{
    const json_t *v = json_object_get(o, key);
    *ok &= json_is_integer(v) && json_integer_value(v) >= 0;
    return *ok ? (uint64_t)json_integer_value(v) : 0;
}

static int start(struct ledger *l, const json_t *o)
{
    bool ok = true;
    const uint64_t steps = number(o, "steps", &ok), micro = number(o, "micro_batches", &ok), stages = number(o, "stages", &ok);
    if (!ok || !steps || steps > STEPS_MOST || !stages || stages > ZL_STAGES_MAX)
        return refuse(l, "the start of a run lacks its sizes");
    if (l->begun)
        return refuse(l, "the run starts a second time");
    l->begun = true;
    l->n_micro = micro;
    l->proof->steps = steps;
    l->proof->stages = (uint32_t)stages;
    l->step = calloc(steps + 2, sizeof *l->step);
    return l->step ? 0 : zl_fail(l->err, ZL_EMEMORY, "no memory to check %s", l->path);
}

static const struct cut *find_cut(const struct ledger *l, uint64_t generation)
{
    for (size_t i = l->n_cuts; i-- > 0;)
        if (l->cut[i].generation == generation)
            return &l->cut[i];
    return NULL;
}

/* Micro-batches below `end` that are not left out. */
static uint64_t fed_below(const struct ledger *l, uint64_t end)
{
    uint64_t n = end;
    for (uint32_t i = 0; i < l->left_out.n; i++)
        n -= l->left_out.micro[i] < end;
    return n;
}

static int restore(struct ledger *l, const json_t *o)
{
    bool ok = true;
    const uint64_t generation = number(o, "generation", &ok), step = number(o, "step", &ok), micro = number(o, "micro", &ok);
    const struct cut *c = find_cut(l, generation);
    if (!ok || step > l->proof->steps || step > l->proof->steps_done)
        return refuse(l, "restores to a step that had not been reached");
    if (!c)
        return refuse(l, "restores a generation whose cut is not in the ledger");
    if (c->micro != micro)
        return refuse(l, "restores another place than that generation's cut");
    l->next = micro;
    l->proof->steps_done = step;
    l->proof->restored++;
    for (uint64_t i = step + 1; i <= l->proof->steps; i++)
        if (l->step[i].end > micro)
            l->step[i].end = l->step[i].first < micro ? micro : l->step[i].first;
    return 0;
}

/* The start again, as a run that goes back to its beginning does. */
static int restart(struct ledger *l)
{
    l->next = 0;
    l->proof->steps_done = 0;
    l->proof->restored++;
    memset(l->step, 0, (l->proof->steps + 1) * sizeof *l->step);
    return 0;
}

static int admit(struct ledger *l, const json_t *o)
{
    bool ok = true;
    const json_t *range = json_object_get(o, "micro");
    const uint64_t step = number(o, "step", &ok);
    const json_int_t first = json_integer_value(json_array_get(range, 0)), last = json_integer_value(json_array_get(range, 1));
    if (!ok || !step || step > l->proof->steps || first < 0 || last < first || (uint64_t)last >= l->n_micro)
        return refuse(l, "admits what the run does not have");
    while (l->next < (uint64_t)first && zl_left_out_has(&l->left_out, l->next))
        l->next++;
    if ((uint64_t)first != l->next)
        return refuse(l, (uint64_t)first < l->next ? "admits a micro-batch a second time" : "passes over a micro-batch");
    struct step *s = &l->step[step];
    if (s->first == s->end)
        s->first = (uint64_t)first;
    s->end = l->next = (uint64_t)last + 1;
    return 0;
}

/* Micro-batches of a step that were admitted and count. */
static uint64_t admitted(const struct ledger *l, uint64_t step)
{
    return fed_below(l, l->step[step].end) - fed_below(l, l->step[step].first);
}

static int update(struct ledger *l, const json_t *o)
{
    bool ok = true;
    const uint64_t step = number(o, "step", &ok);
    const json_t *counts = json_object_get(o, "micro_batches"), *made = json_object_get(o, "updated");
    if (!ok || step != l->proof->steps_done + 1 || step > l->proof->steps)
        return refuse(l, ok && step <= l->proof->steps_done ? "updates a step a second time" : "passes over a step");
    if (json_array_size(counts) != l->proof->stages || json_array_size(made) != l->proof->stages)
        return refuse(l, "an update of another number of stages");
    struct step *s = &l->step[step];
    for (uint32_t k = 0; k < l->proof->stages; k++) {
        if ((uint64_t)json_integer_value(json_array_get(counts, k)) != admitted(l, step))
            return refuse(l, "a stage has trained on another number of micro-batches than were admitted");
        s->updated[k] = json_is_true(json_array_get(made, k));
    }
    l->proof->steps_done = step;
    return 0;
}

static int cut(struct ledger *l, const json_t *o)
{
    bool ok = true;
    const json_t *stages = json_object_get(o, "stages");
    struct cut c = {.generation = number(o, "generation", &ok), .micro = number(o, "micro", &ok)};
    struct cut *more = realloc(l->cut, (l->n_cuts + 1) * sizeof *more);
    if (!more)
        return zl_fail(l->err, ZL_EMEMORY, "no memory to check %s", l->path);
    l->cut = more;
    for (uint32_t k = 0; k < l->proof->stages; k++) {
        const json_t *e = json_array_get(stages, k);
        c.count[k] = (struct zl_stage_count){number(e, "forwarded", &ok), number(e, "finished", &ok), number(e, "updates", &ok)};
        if (c.count[k].finished > c.count[k].forwarded || c.count[k].forwarded > c.micro)
            return refuse(l, "a stage has done more than was fed");
    }
    if (!ok)
        return refuse(l, "a cut lacks its numbers");
    l->cut[l->n_cuts++] = c;
    return 0;
}

static int skip(struct ledger *l, const json_t *o)
{
    bool ok = true;
    const uint64_t micro = number(o, "micro", &ok);
    if (!ok || micro >= l->n_micro || !zl_left_out_add(&l->left_out, micro))
        return refuse(l, "leaves out what the run does not have");
    return 0;
}

static int take(struct ledger *l, const json_t *o)
{
    const char *event = json_string_value(json_object_get(o, "event"));
    if (!event)
        return refuse(l, "a line without an event");
    if (strcmp(event, "started") == 0)
        return l->begun && json_object_get(o, "because") ? restart(l) : start(l, o);
    if (!l->begun)
        return refuse(l, "the ledger does not begin with the run's start");
    if (strcmp(event, "restored") == 0)
        return restore(l, o);
    if (strcmp(event, "admitted") == 0)
        return admit(l, o);
    if (strcmp(event, "updated") == 0)
        return update(l, o);
    if (strcmp(event, "cut") == 0)
        return cut(l, o);
    if (strcmp(event, "skipped") == 0)
        return skip(l, o);
    l->proof->finished = strcmp(event, "finished") == 0;
    l->proof->died += strcmp(event, "died") == 0;
    return 0;
}

/* What the steps up to `whole` and those begun hold of stage k, by the ledger and the driver's text, against the stage's own counters. */
static int compare_stage(struct ledger *l, const char *name, const struct zl_standing *s, uint32_t k)
{
    uint64_t finished = 0, updates = 0;
    for (uint64_t i = 1; i <= s->tally.steps_done && i <= l->proof->steps; i++) {
        finished += admitted(l, i);
        updates += l->step[i].updated[k];
    }
    for (uint32_t i = 0; i < s->n_begun; i++) {
        finished += s->begun[i].n_micro[k];
        updates += s->begun[i].updated[k];
    }
    if (finished == s->count[k].finished && updates == s->count[k].updates)
        return 0;
    return zl_fail(l->err, ZL_EINPUT,
                   "%s: by the ledger stage %u has trained on %llu micro-batches in %llu updates, by its own count %llu in %llu", name, k,
                   (unsigned long long)finished, (unsigned long long)updates, (unsigned long long)s->count[k].finished,
                   (unsigned long long)s->count[k].updates);
}

static int compare(struct ledger *l, const char *run_dir, const char *name)
{
    struct zl_generation g;
    struct zl_standing s;
    struct zl_stage_state own;
    if (zl_generation_open(&g, run_dir, name, NULL))
        return 0; /* its own verification says what is wrong with it */
    int rc = zl_standing_read(g.text, g.text_bytes, &s, NULL);
    if (rc) {
        zl_generation_close(&g);
        return 0;
    }
    const struct cut *c = find_cut(l, g.generation);
    const bool ours = c && c->micro == s.micro && s.n_stages == l->proof->stages && s.tally.steps_done <= l->proof->steps_done;
    for (uint32_t k = 0; ours && k < s.n_stages && !rc; k++) {
        rc = compare_stage(l, name, &s, k);
        if (!rc && zl_generation_read(&g, k, ZL_SECTION_STATE, &own, sizeof own, NULL) == 0 &&
            (own.forwarded != c->count[k].forwarded || own.finished != c->count[k].finished || own.updates != c->count[k].updates))
            rc = zl_fail(l->err, ZL_EINPUT, "%s: stage %u counts otherwise than the ledger's cut of generation %llu", name, k,
                         (unsigned long long)g.generation);
    }
    l->proof->checkpoints += ours && !rc;
    zl_standing_free(&s);
    zl_generation_close(&g);
    return rc;
}

static int compare_checkpoints(struct ledger *l, const char *run_dir)
{
    struct zl_generation_name *list = NULL;
    uint64_t n = 0;
    int rc = zl_generation_list(run_dir, &list, &n, l->err);
    for (uint64_t i = 0; i < n && !rc; i++)
        if (!list[i].aside)
            rc = compare(l, run_dir, list[i].name);
    free(list);
    return rc;
}

/* What was written when the power went is not part of it: a rest without a newline, a line with zeros and all behind it. */
static int read_lines(struct ledger *l, char *text, size_t n)
{
    int rc = 0;
    for (char *line = text, *end; !rc && (end = memchr(line, '\n', (size_t)(text + n - line))); line = end + 1) {
        json_t *o = json_loadb(line, (size_t)(end - line), 0, NULL);
        if (zl_append_is_torn(line, (size_t)(end - line))) {
            l->proof->torn = true;
            break;
        }
        l->proof->lines++;
        rc = json_is_object(o) ? take(l, o) : refuse(l, "is no JSON object");
        json_decref(o);
    }
    return rc;
}

static int conclude(struct ledger *l)
{
    struct zl_events_proof *p = l->proof;
    for (uint64_t s = 1; s <= p->steps_done; s++)
        p->micro_batches += admitted(l, s);
    p->left_out = l->left_out.n;
    if (p->finished && p->steps_done != p->steps)
        return zl_fail(l->err, ZL_EINPUT, "%s: the run has finished after %llu of %llu steps", l->path, (unsigned long long)p->steps_done,
                       (unsigned long long)p->steps);
    if (p->finished && p->micro_batches + p->left_out != l->n_micro)
        return zl_fail(l->err, ZL_EINPUT, "%s: %llu of %llu micro-batches were trained on and %llu left out", l->path,
                       (unsigned long long)p->micro_batches, (unsigned long long)l->n_micro, (unsigned long long)p->left_out);
    return 0;
}

int zl_events_check(const char *run_dir, struct zl_events_proof *proof, struct zl_error *err)
{
    char *path = zl_path_join(run_dir, "events.jsonl"), *text = NULL;
    size_t n = 0;
    *proof = (struct zl_events_proof){0};
    struct ledger l = {.path = path, .err = err, .proof = proof};
    int rc = path ? 0 : zl_fail(err, ZL_EMEMORY, "out of memory");
    struct zl_error why = {0};
    if (!rc && zl_file_read(path, SIZE_MAX / 4, &text, &n, &why) == 0)
        rc = read_lines(&l, text, n);
    else if (!rc && errno != ENOENT)
        rc = zl_fail(err, why.code, "%s", why.text);
    proof->any = proof->lines > 0;
    if (!rc && proof->any)
        rc = conclude(&l);
    if (!rc && proof->any)
        rc = compare_checkpoints(&l, run_dir);
    free(l.step);
    free(l.cut);
    free(text);
    free(path);
    return rc;
}
