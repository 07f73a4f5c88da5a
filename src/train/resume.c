/* Going on with a run from a checkpoint: see resume.h. */
#include "train/resume.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "train/sweep.h"

#define RUN_JSON_MOST (16u << 20)

static void say(void *context, const char *sentence)
{
    (void)context;
    zl_warn("%s; an older checkpoint will do", sentence);
}

/* The run's own name, from run.json: generations of others that used the folder do not count. False: it is not known. */
static bool read_id(const struct zl_run *run, struct zl_run_id *id)
{
    char *path = zl_run_path(run, "run.json"), *text = NULL;
    size_t n = 0;
    bool known = false;
    if (path && zl_file_read(path, RUN_JSON_MOST, &text, &n, NULL) == 0) {
        json_t *o = json_loadb(text, n, 0, NULL);
        const char *name = json_string_value(json_object_get(o, "run"));
        known = name && zl_run_id_parse(id, name);
        json_decref(o);
    }
    free(path);
    free(text);
    return known;
}

static int take(struct zl_resume *r, struct zl_error *err)
{
    int rc = zl_standing_read(r->generation.text, r->generation.text_bytes, &r->standing, err);
    r->id = r->generation.run;
    return rc;
}

int zl_resume_find(struct zl_resume *r, const struct zl_run *run, bool force, struct zl_error *err)
{
    struct zl_run_id id;
    *r = (struct zl_resume){.dir = strdup(run->dir)};
    if (!r->dir)
        return zl_fail(err, ZL_EMEMORY, "out of memory");
    const bool known = read_id(run, &id);
    int rc = zl_generation_newest(&r->generation, r->dir, known ? &id : NULL, say, NULL, err);
    if (!rc && zl_resume_any(r))
        return take(r, err);
    if (!rc && !force && zl_run_has_adapter(run))
        return zl_fail(err, ZL_EUSAGE, "%s holds an adapter but no checkpoint to go on from; add --force to train anew", r->dir);
    if (!rc)
        zl_note("%s holds no checkpoint: from the beginning", r->dir);
    return rc ? rc : zl_run_id_make(&r->id, err);
}

/* Open it if it is sound and was cut before the micro-batch was fed. */
static bool is_before(struct zl_resume *r, const char *name, const struct zl_run_id *id, uint64_t micro)
{
    struct zl_error why = {0};
    int rc = zl_generation_open(&r->generation, r->dir, name, &why);
    if (!rc && memcmp(&r->generation.run, id, sizeof *id) != 0)
        rc = ZL_EINPUT; /* not a word about others */
    if (!rc)
        rc = zl_generation_verify(&r->generation, &why);
    if (!rc)
        rc = take(r, &why);
    if (!rc && r->standing.micro <= micro)
        return true;
    if (rc && why.code)
        say(NULL, why.text);
    zl_generation_close(&r->generation);
    zl_standing_free(&r->standing);
    r->generation = (struct zl_generation){0};
    return false;
}

int zl_resume_back(struct zl_resume *r, const char *dir, const struct zl_run_id *id, uint64_t micro, struct zl_error *err)
{
    struct zl_generation_name *list;
    uint64_t n, aside = 0;
    *r = (struct zl_resume){.dir = strdup(dir), .id = *id};
    int rc = r->dir ? zl_generation_list(dir, &list, &n, err) : zl_fail(err, ZL_EMEMORY, "out of memory");
    if (rc)
        return rc;
    for (uint64_t i = 0; i < n && !zl_resume_any(r); i++)
        if (!list[i].aside && is_before(r, list[i].name, id, micro) && i > 0)
            rc = zl_generation_restore(dir, list[i].generation, &aside, err);
    r->id = *id;
    free(list);
    return rc;
}

void zl_resume_free(struct zl_resume *r)
{
    if (zl_resume_any(r))
        zl_generation_close(&r->generation);
    zl_standing_free(&r->standing);
    free(r->dir);
    *r = (struct zl_resume){0};
}

void zl_resume_options(const struct zl_resume *r, struct zl_train_options *o)
{
    if (!zl_resume_any(r))
        return;
    if (o->memory_limit) /* what the process held then decided about it; that is not to be decided twice */
        o->micro_batch_exact = r->standing.micro_batch_tokens;
    static uint64_t front[] = {0};
    const json_t *stages = json_object_get(r->standing.identity, "the stages");
    const char *first = json_string_value(json_array_get(stages, 0));
    if (zl_freeze_auto(o) && first) /* decided when the run began */
        o->freeze = (struct zl_numbers){front, strstr(first, " frozen") != NULL};
    if (r->standing.halted && o->ring_depth < r->standing.ring_depth)
        o->ring_depth = r->standing.ring_depth;
}

int zl_resume_check(const struct zl_resume *r, const json_t *identity, bool force, struct zl_error *err)
{
    char text[700];
    if (!zl_resume_any(r) || !zl_identity_compare(r->standing.identity, identity, text, sizeof text))
        return 0;
    if (force) {
        zl_warn("going on with another run than was begun: %s", text);
        return 0;
    }
    return zl_fail(err, ZL_EUSAGE, "this is not the run that %s began: %s; --force goes on nevertheless", r->dir, text);
}

/* ---- metrics ------------------------------------------------------------------------------------- */

struct kept {
    const struct zl_tally *tally;
    uint64_t steps, evaluations;
};

static bool keep(void *context, const json_t *line)
{
    struct kept *k = context;
    if (!line)
        return false;
    if (json_object_get(line, "eval_loss"))
        return k->evaluations < k->tally->evaluations && ++k->evaluations;
    const json_t *step = json_object_get(line, "step");
    if (!json_is_integer(step) || (uint64_t)json_integer_value(step) > k->tally->steps_done)
        return false;
    k->steps++;
    return true;
}

int zl_resume_journal(const struct zl_resume *r, struct zl_run *run, struct zl_journal *j, struct zl_error *err)
{
    struct kept k = {.tally = &r->standing.tally};
    int rc = zl_run_resume(run, keep, &k, err);
    if (rc)
        return rc;
    if (k.steps != k.tally->steps_done || k.evaluations != k.tally->evaluations)
        zl_warn("%s holds %llu of %llu steps and %llu of %llu evaluations from before; the others are lost", run->metrics.path,
                (unsigned long long)k.steps, (unsigned long long)k.tally->steps_done, (unsigned long long)k.evaluations,
                (unsigned long long)k.tally->evaluations);
    zl_journal_resume(j, k.tally);
    return 0;
}

/* The file has done its work; held open it would take its room on the disk beyond its removal. */
static void let_go(struct zl_resume *r)
{
    if (zl_resume_any(r))
        zl_generation_close(&r->generation);
}

/* ---- the stages ---------------------------------------------------------------------------------- */

static uint64_t bytes_of(void *context, uint32_t stage, uint32_t section)
{
    const struct zl_resume *r = context;
    const struct zl_checkpoint_part *p = zl_generation_part(&r->generation, stage, section);
    return p ? p->bytes : 0;
}

static int read_part(void *context, uint32_t stage, uint32_t section, void *data, uint64_t bytes, struct zl_error *err)
{
    struct zl_resume *r = context;
    return zl_generation_read(&r->generation, stage, section, data, bytes, err);
}

int zl_resume_pipeline(struct zl_resume *r, struct zl_pipeline *l, struct zl_error *err)
{
    const struct zl_pipeline_source source = {bytes_of, read_part, r};
    if (!zl_resume_any(r))
        return 0;
    if (l->n != r->standing.n_stages)
        return zl_fail(err, ZL_EUSAGE, "the checkpoint is of %u stages, and there are %u", r->standing.n_stages, l->n);
    int rc = zl_pipeline_restore(l, &source, err);
    let_go(r);
    return rc;
}

static int read_block(void *context, uint32_t k, struct zl_block *b, int64_t *updates, struct zl_error *err)
{
    struct zl_resume *r = context;
    struct zl_stage_state state;
    const uint64_t bytes = b->n * sizeof(float);
    int rc = zl_generation_read(&r->generation, k, ZL_SECTION_STATE, &state, sizeof state, err);
    *updates = (int64_t)state.updates;
    if (!rc && bytes)
        rc = zl_generation_read(&r->generation, k, ZL_SECTION_WEIGHTS, b->w, bytes, err);
    if (!rc && bytes && b->spec.train)
        rc = zl_generation_read(&r->generation, k, ZL_SECTION_MOMENT_1, b->m, bytes, err);
    if (!rc && bytes && b->spec.train)
        rc = zl_generation_read(&r->generation, k, ZL_SECTION_MOMENT_2, b->v, bytes, err);
    return rc;
}

int zl_resume_sweep(struct zl_resume *r, struct zl_sweep *w, struct zl_error *err)
{
    uint64_t step = r->standing.tally.steps_done;
    int rc = zl_resume_any(r) ? zl_sweep_visit(w, true, &step, read_block, r, err) : 0;
    let_go(r);
    return rc;
}
