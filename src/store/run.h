/*
 * A run's folder: who holds it, and what lies in it.
 *
 *     adapter/        PEFT: adapter_config.json, adapter_model.safetensors; appears whole
 *     metrics.jsonl   one object a step or evaluation, appended
 *     events.jsonl    what happened to the run: see zerolock-events(5)
 *     checkpoints/    the run's state at some steps: generation.h
 *     config.yaml     the options of the run, as `zerolock train --config` reads them
 *     run.json        what was made of them: model, data, cut, adapter, versions
 *     lock            held by flock(2) while a run is alive: two runs never share a folder
 */
#ifndef ZL_STORE_RUN_H
#define ZL_STORE_RUN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "store/append.h"

struct zl_run {
    char *dir;
    int lock;         /* descriptor; -1: none */
    bool made, begun; /* the folder was not there before; zl_run_begin was called */
    struct zl_append metrics, events;
};

enum zl_run_mode {
    ZL_RUN_FRESH,     /* a folder that holds another run's results is refused */
    ZL_RUN_OVERWRITE,
    ZL_RUN_CONTINUE   /* its results are this run's */
};

/* Make the folder and take its lock. Symbolic links and anything but plain files in the place of the lock, the metrics and the events are
 * refused. Nothing that it holds is changed, but what killed writers left under temporary names goes. */
int zl_run_open(struct zl_run *r, const char *dir, enum zl_run_mode mode, struct zl_error *err);

/* The folder holds results of a run: an adapter, or metrics. */
bool zl_run_has_results(const struct zl_run *r);
bool zl_run_has_adapter(const struct zl_run *r);

/* The run is known to be possible and starts: empty metrics and events of an earlier one and remove its checkpoints. Its adapter stays
 * until the new one replaces it. */
int zl_run_begin(struct zl_run *r, struct zl_error *err);

/* It goes on: keep of the metrics the lines that `keep` wants (NULL: what is no JSON object), all that stands behind the last whole line,
 * or from the first torn one (append.h) on, goes. Of the events only such a rest goes. */
int zl_run_resume(struct zl_run *r, bool (*keep)(void *context, const json_t *line), void *context, struct zl_error *err);

/* The folder is still there under its name. */
bool zl_run_is_there(const struct zl_run *r);

/* A folder that zl_run_open made goes again when the run never began. ZL_ESYSTEM when lines of metrics or events are missing. */
int zl_run_close(struct zl_run *r, struct zl_error *err);

/* Take the lock of a folder that is there, without looking at what else it holds; zl_run_release gives it back (-1: nothing). */
int zl_run_hold(const char *dir, int *lock, struct zl_error *err);
void zl_run_release(int lock);

/* Path of something in the folder, malloc'd. */
char *zl_run_path(const struct zl_run *r, const char *name);

/* Append one object as a line. Takes the reference. What cannot be written waits (append.h), with one warning when that begins; only no memory
 * is a failure. */
int zl_run_metric(struct zl_run *r, json_t *object, struct zl_error *err);
int zl_run_event(struct zl_run *r, json_t *object, struct zl_error *err);

/* Write a file of the folder anew: it holds the old content or the new one, never a part. The object's reference is taken. */
int zl_run_write_text(const struct zl_run *r, const char *name, const char *text, struct zl_error *err);
int zl_run_write_json(const struct zl_run *r, const char *name, json_t *object, struct zl_error *err);

#endif
