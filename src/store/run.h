/*
 * A run's folder: who holds it, and what lies in it.
 *
 *     adapter/        PEFT: adapter_config.json, adapter_model.safetensors; appears whole
 *     metrics.jsonl   one object a step or evaluation, appended
 *     config.yaml     the options of the run, as `zerolock train --config` reads them
 *     run.json        what was made of them: model, data, cut, adapter, versions
 *     lock            held by flock(2) while a run is alive: two runs never share a folder
 */
#ifndef ZL_STORE_RUN_H
#define ZL_STORE_RUN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

struct zl_run {
    char *dir;
    int lock;         /* descriptor; -1: none */
    bool made, begun; /* the folder was not there before; zl_run_begin was called */
    FILE *metrics;
};

/* Make the folder and take its lock. A folder that holds another run's results is refused unless `force`, and so are symbolic links
 * and anything but plain files in the place of the lock and the metrics. Nothing that it holds is changed. */
int zl_run_open(struct zl_run *r, const char *dir, bool force, struct zl_error *err);

/* The run is known to be possible and starts: empty the metrics of an earlier one. Its adapter stays until the new one replaces it. */
int zl_run_begin(struct zl_run *r, struct zl_error *err);

/* A folder that zl_run_open made goes again when the run never began. */
void zl_run_close(struct zl_run *r);

/* Take the lock of a folder that is there, without looking at what else it holds; zl_run_release gives it back (-1: nothing). */
int zl_run_hold(const char *dir, int *lock, struct zl_error *err);
void zl_run_release(int lock);

/* Path of something in the folder, malloc'd. */
char *zl_run_path(const struct zl_run *r, const char *name);

/* Append one object as a line and flush it. Takes the reference. */
int zl_run_metric(struct zl_run *r, json_t *object, struct zl_error *err);

/* Write a file of the folder anew: it holds the old content or the new one, never a part. The object's reference is taken. */
int zl_run_write_text(const struct zl_run *r, const char *name, const char *text, struct zl_error *err);
int zl_run_write_json(const struct zl_run *r, const char *name, json_t *object, struct zl_error *err);

#endif
