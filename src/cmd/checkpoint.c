/*
 * `zerolock checkpoint`: what the checkpoints of a run are, and going back to one. list looks at each file's head, index and foot; verify
 * reads all of it, and proves from the run's events that no update was lost or made twice. The work is src/store's and src/train's.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "cmd/commands.h"
#include "cmd/inspect.h"
#include "store/generation.h"
#include "store/run.h"
#include "train/events_check.h"

/* What is known of one name in the folder. */
struct finding {
    const struct zl_generation_name *name;
    bool opened;      /* head, index and foot agree; run and program are known */
    bool sound;       /* and after verify: every byte is what was written */
    struct zl_run_id run;
    char program[33];
    struct zl_error why;
};

struct findings {
    struct zl_generation_name *names;
    struct finding *at;
    uint64_t n, n_bad;     /* bad: not set aside and not to be used */
    const struct finding *current; /* the newest to be used; NULL: none */
    bool verified;
    struct zl_events_proof proof; /* of the ledger, with verify */
    struct zl_error broken;       /* why it does not hold */
};

static void look(const struct zl_checkpoint_options *o, struct finding *f)
{
    struct zl_generation g;
    int rc = zl_generation_open(&g, o->run, f->name->name, &f->why);
    if (rc)
        return;
    f->opened = true;
    f->run = g.run;
    memcpy(f->program, g.program, sizeof f->program);
    if (o->what == ZL_CHECKPOINT_VERIFY)
        rc = zl_generation_verify(&g, &f->why);
    f->sound = rc == 0;
    zl_generation_close(&g);
}

static int gather(const struct zl_checkpoint_options *o, struct findings *all, struct zl_error *err)
{
    *all = (struct findings){.verified = o->what == ZL_CHECKPOINT_VERIFY};
    int rc = zl_is_folder(o->run) ? zl_generation_list(o->run, &all->names, &all->n, err)
                                  : zl_fail(err, ZL_EINPUT, "%s is not a folder", o->run);
    if (rc || !all->n)
        return rc;
    all->at = calloc(all->n, sizeof *all->at);
    if (!all->at)
        return zl_fail(err, ZL_EMEMORY, "no memory for a list of checkpoints");
    for (uint64_t i = 0; i < all->n; i++) {
        struct finding *f = &all->at[i];
        f->name = &all->names[i];
        look(o, f);
        if (!f->name->aside && f->sound && !all->current)
            all->current = f;
        all->n_bad += !f->name->aside && !f->sound;
    }
    return 0;
}

static const char *state(const struct findings *all, const struct finding *f)
{
    if (!f->sound)
        return f->why.code == ZL_EUSAGE ? "of another format" : "damaged";
    return all->verified ? "sound" : "complete";
}

static bool of_another_run(const struct findings *all, const struct finding *f)
{
    return f->opened && all->current && memcmp(&f->run, &all->current->run, sizeof f->run) != 0;
}

static void print_table(const struct findings *all)
{
    if (all->n)
        printf("%10s  %10s  %-19s  %10s  %s\n", "generation", "step", "written", "MiB", "state");
    for (uint64_t i = 0; i < all->n; i++) {
        const struct finding *f = &all->at[i];
        struct tm tm;
        char when[32] = "";
        if (localtime_r(&f->name->modified, &tm))
            strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &tm);
        printf("%10llu  %10llu  %-19s  %10.1f  %s%s%s%s%s", (unsigned long long)f->name->generation, (unsigned long long)f->name->step,
               when, (double)f->name->bytes / 1048576.0, state(all, f), f == all->current ? ", current" : "",
               f->name->aside ? ", set aside" : "", of_another_run(all, f) ? ", of another run" : "", f->sound ? "" : ": ");
        zl_inspect_text(f->sound ? "" : f->why.text);
        putchar('\n');
    }
}

static json_t *describe(const struct findings *all, const struct finding *f)
{
    json_t *o = json_object();
    struct tm tm;
    char when[32] = "", run[ZL_RUN_ID_TEXT];
    if (gmtime_r(&f->name->modified, &tm))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
    json_object_set_new(o, "generation", zl_json_count(f->name->generation));
    json_object_set_new(o, "step", zl_json_count(f->name->step));
    json_object_set_new(o, "file", json_string(f->name->name));
    json_object_set_new(o, "bytes", zl_json_count(f->name->bytes));
    json_object_set_new(o, "written", json_string(when));
    json_object_set_new(o, "state", json_string(state(all, f)));
    json_object_set_new(o, "current", json_boolean(f == all->current));
    json_object_set_new(o, "aside", json_boolean(f->name->aside));
    if (!f->sound)
        json_object_set_new(o, "why", zl_inspect_string(f->why.text));
    if (f->opened) {
        zl_run_id_text(&f->run, run);
        json_object_set_new(o, "run", json_string(run));
        json_object_set_new(o, "program", zl_inspect_string(f->program));
    }
    return o;
}

/* What the ledger proves, as a sentence. */
static void print_proof(const struct zl_events_proof *p)
{
    if (!p->any)
        return;
    printf("events: %llu micro-batches in %llu of %llu steps, each trained on once in each of %u stage%s", (unsigned long long)p->micro_batches,
           (unsigned long long)p->steps_done, (unsigned long long)p->steps, p->stages, p->stages == 1 ? "" : "s");
    if (p->left_out)
        printf(", %llu left out", (unsigned long long)p->left_out);
    if (p->restored)
        printf(", over %llu restoration%s", (unsigned long long)p->restored, p->restored == 1 ? "" : "s");
    if (p->torn)
        printf(", up to where the file was torn when the power went");
    printf("; the counters of %llu checkpoint%s agree\n", (unsigned long long)p->checkpoints, p->checkpoints == 1 ? "" : "s");
}

static json_t *describe_proof(const struct findings *all)
{
    const struct zl_events_proof *p = &all->proof;
    json_t *o = json_object();
    json_object_set_new(o, "holds", json_boolean(all->broken.code == 0));
    if (all->broken.code)
        json_object_set_new(o, "why", zl_inspect_string(all->broken.text));
    json_object_set_new(o, "finished", json_boolean(p->finished));
    json_object_set_new(o, "torn", json_boolean(p->torn));
    json_object_set_new(o, "steps", zl_json_count(p->steps_done));
    json_object_set_new(o, "micro_batches", zl_json_count(p->micro_batches));
    json_object_set_new(o, "left_out", zl_json_count(p->left_out));
    json_object_set_new(o, "stages", zl_json_count(p->stages));
    json_object_set_new(o, "restored", zl_json_count(p->restored));
    json_object_set_new(o, "died", zl_json_count(p->died));
    json_object_set_new(o, "checkpoints", zl_json_count(p->checkpoints));
    return o;
}

static int print_json(const struct zl_checkpoint_options *o, const struct findings *all, struct zl_error *err)
{
    json_t *root = json_object(), *list = json_array();
    json_object_set_new(root, "run", zl_inspect_string(o->run));
    json_object_set_new(root, "current", all->current ? zl_json_count(all->current->name->generation) : json_null());
    for (uint64_t i = 0; i < all->n; i++)
        json_array_append_new(list, describe(all, &all->at[i]));
    json_object_set_new(root, "checkpoints", list);
    if (all->verified && all->proof.any)
        json_object_set_new(root, "events", describe_proof(all));
    return zl_inspect_json(root, err);
}

static int judge(const struct zl_checkpoint_options *o, const struct findings *all, struct zl_error *err)
{
    const unsigned long long bad = all->n_bad;
    if (!all->n)
        return zl_fail(err, ZL_EINPUT, "%s has no checkpoints", o->run);
    if (!all->current)
        return zl_fail(err, ZL_EINPUT, "%s has no checkpoint that can be used", o->run);
    if (bad)
        return zl_fail(err, ZL_EINPUT, "%llu checkpoint%s of %s cannot be used; the newest that can is generation %llu of step %llu", bad,
                       bad == 1 ? "" : "s", o->run, (unsigned long long)all->current->name->generation,
                       (unsigned long long)all->current->name->step);
    if (all->broken.code)
        return zl_fail(err, ZL_EINPUT, "%s", all->broken.text);
    return 0;
}

static int show(const struct zl_checkpoint_options *o, struct zl_error *err)
{
    struct findings all;
    int rc = gather(o, &all, err);
    if (!rc && all.verified)
        zl_events_check(o->run, &all.proof, &all.broken);
    if (!rc && o->json)
        rc = print_json(o, &all, err);
    else if (!rc) {
        print_table(&all);
        if (!all.broken.code)
            print_proof(&all.proof);
    }
    if (!rc && o->what == ZL_CHECKPOINT_VERIFY)
        rc = judge(o, &all, err);
    else if (!rc && !all.n)
        zl_note("%s has no checkpoints", o->run);
    free(all.at);
    free(all.names);
    return rc;
}

static void pass_over(void *context, const char *sentence)
{
    (void)context;
    zl_warn("%s", sentence);
}

/* The generation that was asked for, or the newest that verifies. */
static int choose(const struct zl_checkpoint_options *o, uint64_t *generation, struct zl_error *err)
{
    struct zl_generation g;
    *generation = o->generation;
    if (ZL_GIVEN(o, generation))
        return 0;
    int rc = zl_generation_newest(&g, o->run, NULL, pass_over, NULL, err);
    if (!rc && !g.file)
        rc = zl_fail(err, ZL_EINPUT, "%s has no checkpoint that can be used", o->run);
    *generation = g.generation;
    zl_generation_close(&g);
    return rc;
}

static int restore(const struct zl_checkpoint_options *o, struct zl_error *err)
{
    uint64_t generation = 0, aside = 0;
    int lock = -1, rc = zl_run_hold(o->run, &lock, err);
    if (!rc)
        rc = choose(o, &generation, err);
    if (!rc)
        rc = zl_generation_restore(o->run, generation, &aside, err);
    zl_run_release(lock);
    if (!rc && o->json)
        return zl_inspect_json(json_pack("{s:o, s:I, s:I}", "run", zl_inspect_string(o->run), "current", (json_int_t)generation,
                                         "set_aside", (json_int_t)aside),
                               err);
    if (!rc)
        zl_note("generation %llu is the newest of %s now, %llu newer one%s set aside", (unsigned long long)generation, o->run,
                (unsigned long long)aside, aside == 1 ? " was" : "s were");
    return rc;
}

int zl_cmd_checkpoint(int argc, char **argv)
{
    struct zl_checkpoint_options o;
    struct zl_memory memory = {0};
    struct zl_error err = {0};
    int rc = zl_options_parse(&zl_checkpoint_command, argc, argv, &o, &memory, &err);
    if (rc == ZL_PARSED) {
        zl_log_quiet(o.quiet);
        rc = zl_checkpoint_options_settle(&o, &err);
        if (rc == 0)
            rc = o.what == ZL_CHECKPOINT_RESTORE ? restore(&o, &err) : show(&o, &err);
    }
    zl_memory_free(&memory);
    return zl_command_finish(&zl_checkpoint_command, rc, &err);
}
