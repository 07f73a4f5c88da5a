/* What happened to a run: see events.h. */
#include "train/events.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "train/course.h"

static json_t *event(const char *name)
{
    struct timespec now;
    json_t *o = json_object();
    clock_gettime(CLOCK_REALTIME, &now);
    json_object_set_new(o, "event", json_string(name));
    json_object_set_new(o, "time", json_integer((json_int_t)now.tv_sec * 1000 + now.tv_nsec / 1000000));
    return o;
}

static void set(json_t *o, const char *key, uint64_t value)
{
    json_object_set_new(o, key, zl_json_count(value));
}

/* Without memory for a line the run goes on: the ledger then lacks it, which its reader finds. */
static void write_line(struct zl_run *r, json_t *o)
{
    zl_run_event(r, o, NULL);
}

void zl_event_start(struct zl_run *r, const struct zl_event_start *e)
{
    char run[ZL_RUN_ID_TEXT];
    json_t *o = event(e->generation ? "restored" : "started");
    zl_run_id_text(&e->run, run);
    json_object_set_new(o, "run", json_string(run));
    set(o, "pid", (uint64_t)getpid());
    if (e->generation)
        set(o, "generation", e->generation);
    set(o, "step", e->step);
    set(o, "micro", e->micro);
    set(o, "steps", e->steps);
    set(o, "micro_batches", e->n_micro);
    set(o, "stages", e->stages);
    if (e->because)
        json_object_set_new(o, "because", json_string(e->because));
    write_line(r, o);
}

void zl_event_under_way(struct zl_run *r, uint64_t micro, double seconds)
{
    json_t *o = event("under way");
    set(o, "micro", micro);
    json_object_set_new(o, "seconds", json_real(seconds));
    write_line(r, o);
}

void zl_event_admitted(struct zl_run *r, uint64_t step, uint64_t first, uint64_t last)
{
    json_t *o = event("admitted");
    set(o, "step", step);
    json_object_set_new(o, "micro", json_pack("[I,I]", (json_int_t)first, (json_int_t)last));
    write_line(r, o);
}

void zl_event_step(struct zl_run *r, const struct zl_step_record *s, uint32_t stages)
{
    json_t *o = event("updated"), *micro = json_array(), *made = json_array();
    for (uint32_t k = 0; k < stages; k++) {
        json_array_append_new(micro, zl_json_count(s->n_micro[k]));
        json_array_append_new(made, json_boolean(s->updated[k]));
    }
    set(o, "step", s->step);
    json_object_set_new(o, "micro_batches", micro);
    json_object_set_new(o, "updated", made);
    write_line(r, o);
}

void zl_event_skipped(struct zl_run *r, uint64_t step, uint64_t micro, const char *why, json_t *rows)
{
    json_t *o = event("skipped");
    set(o, "step", step);
    set(o, "micro", micro);
    json_object_set_new(o, "because", json_string(why));
    json_object_set_new(o, "rows", rows);
    write_line(r, o);
}

void zl_event_cut(struct zl_run *r, uint64_t generation, uint64_t step, uint64_t micro, const struct zl_stage_count *count, uint32_t stages)
{
    json_t *o = event("cut"), *list = json_array();
    for (uint32_t k = 0; k < stages; k++)
        json_array_append_new(list, json_pack("{s:I,s:I,s:I}", "forwarded", (json_int_t)count[k].forwarded, "finished",
                                              (json_int_t)count[k].finished, "updates", (json_int_t)count[k].updates));
    set(o, "generation", generation);
    set(o, "step", step);
    set(o, "micro", micro);
    json_object_set_new(o, "stages", list);
    write_line(r, o);
}

void zl_event_checkpoint(struct zl_run *r, const struct zl_checkpoint_event *e)
{
    json_t *o = event(e->rc ? "lost" : "checkpointed");
    set(o, "generation", e->generation);
    set(o, "step", e->step);
    if (e->rc)
        json_object_set_new(o, "because", json_string(e->why));
    else
        set(o, "bytes", e->bytes);
    write_line(r, o);
}

void zl_event_end(struct zl_run *r, const char *name, const char *why, uint64_t step)
{
    json_t *o = event(name);
    set(o, "step", step);
    if (why)
        json_object_set_new(o, "because", json_string(why));
    write_line(r, o);
}

void zl_event_died(struct zl_run *r, const char *how)
{
    json_t *o = event("died");
    json_object_set_new(o, "because", json_string(how));
    write_line(r, o);
}

static bool is_end(const char *name)
{
    return strcmp(name, "finished") == 0 || strcmp(name, "stopped") == 0 || strcmp(name, "failed") == 0 || strcmp(name, "died") == 0;
}

int zl_events_before(const char *path, struct zl_left_out *out, bool *ended, struct zl_error *err)
{
    char *text = NULL;
    size_t n = 0;
    *ended = true;
    int rc = zl_file_read(path, SIZE_MAX / 4, &text, &n, err);
    for (char *line = text, *end; !rc && (end = memchr(line, '\n', (size_t)(text + n - line))); line = end + 1) {
        json_t *o = json_loadb(line, (size_t)(end - line), 0, NULL);
        const char *name = json_string_value(json_object_get(o, "event"));
        const json_t *micro = json_object_get(o, "micro");
        *ended = name && is_end(name);
        if (name && strcmp(name, "skipped") == 0 && json_is_integer(micro) && !zl_left_out_add(out, (uint64_t)json_integer_value(micro)))
            rc = zl_fail(err, ZL_EINPUT, "%s leaves out more micro-batches than a run does", path);
        json_decref(o);
    }
    free(text);
    return rc;
}
