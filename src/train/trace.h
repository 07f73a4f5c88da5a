/*
 * A trace as a file in the Chrome trace format ("JSON object format"), which chrome://tracing and Perfetto show: a process a worker, a
 * thread in it a stage. One event a line, so that it can be read back a line at a time:
 *
 *     {"displayTimeUnit":"ms","otherData":{…},"traceEvents":[       otherData: what run.json says
 *     {"ph":"M","pid":1,"name":"process_name","args":{"name":"worker 0"}},
 *     {"ph":"M","pid":1,"tid":0,"name":"thread_name","args":{"name":"stage 0"}},
 *     {"ph":"X","pid":1,"tid":0,"ts":12.345,"dur":6.789,"name":"forward","args":{"step":1,"micro":0}},
 *     {"ph":"C","pid":1,"ts":12.345,"name":"stage 0 ring fill","args":{"value":2}},
 *     {"ph":"M","pid":1,"name":"dropped","args":{"events":0}}
 *     ]}
 *
 * ts and dur are microseconds since the trace began, to the nanosecond; a stage's lines are in the order of its operations.
 */
#ifndef ZL_TRAIN_TRACE_H
#define ZL_TRAIN_TRACE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "pipe/trace.h"

struct zl_trace_file {
    const char *path;
    FILE *f;     /* NULL: no trace is wanted */
    bool is_new; /* the file was not there before and holds nothing yet */
};

/* Find out now whether `path` can be written; what it holds stays until zl_trace_file_write. path NULL: no trace. */
int zl_trace_file_open(struct zl_trace_file *t, const char *path, struct zl_error *err);
/* Events a lane that a run of so many micro-batches through so many stages needs, within what we spend on it. */
uint32_t zl_trace_events(uint64_t micro, uint32_t stages, uint32_t lanes);
/* Write what the lanes hold and warn of what they had no room for. about (may be NULL) is borrowed. */
int zl_trace_file_write(struct zl_trace_file *t, const struct zl_trace *trace, const json_t *about, struct zl_error *err);
void zl_trace_file_close(struct zl_trace_file *t);

/* The trace of a run that may not be wanted: the buffers and where they go. Zero-initialise; each call is allowed in any state. */
struct zl_tracing {
    struct zl_trace_file file;
    struct zl_trace trace;
};
int zl_tracing_open(struct zl_tracing *t, const char *path, struct zl_error *err); /* before work: can it be written? */
/* Room for the run, before it begins. NULL without an error: no trace is wanted. */
struct zl_trace *zl_tracing_begin(struct zl_tracing *t, uint64_t micro, uint32_t stages, uint32_t workers, struct zl_error *err);
/* Write it when the workers have been joined. Takes the reference of `about`, what run.json says. */
int zl_tracing_end(struct zl_tracing *t, json_t *about, struct zl_error *err);
void zl_tracing_close(struct zl_tracing *t);

/* A trace read back: the events of all workers. */
struct zl_traced {
    struct zl_trace_event *event; /* [n], as they stand in the file; times since its zero */
    uint16_t *worker;             /* [n] */
    uint64_t n;
    uint32_t stages, workers;     /* one more than the largest number */
    uint64_t dropped;
    json_t *about; /* otherData, or NULL */
};
/* ZL_EINPUT with the line for what zerolock did not write so. Free after success. */
int zl_trace_read(const char *path, struct zl_traced *t, struct zl_error *err);
void zl_traced_free(struct zl_traced *t);

#endif
