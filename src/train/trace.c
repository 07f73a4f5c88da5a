/* Writing a trace: see trace.h. */
#include "train/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

#define EVENTS_A_MICRO 12          /* that a stage writes for a micro-batch, at most: spans, waits, counters */
#define EVENTS_MOST    (1u << 20)  /* of all lanes: 32 MiB */

int zl_trace_file_open(struct zl_trace_file *t, const char *path, struct zl_error *err)
{
    struct stat st;
    *t = (struct zl_trace_file){.path = path};
    if (!path)
        return 0;
    const bool is_new = access(path, F_OK) != 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (fd < 0)
        return zl_fail_errno(err, ZL_ESYSTEM, "the trace %s cannot be written", path);
    if (fstat(fd, &st) || !(S_ISREG(st.st_mode) || S_ISCHR(st.st_mode))) {
        close(fd);
        return zl_fail(err, ZL_ESYSTEM, "the trace %s is not a plain file", path);
    }
    t->is_new = is_new;
    t->f = fdopen(fd, "w");
    if (t->f)
        return 0;
    close(fd);
    return zl_fail(err, ZL_EMEMORY, "out of memory");
}

uint32_t zl_trace_events(uint64_t micro, uint32_t stages, uint32_t lanes)
{
    const uint64_t most = EVENTS_MOST / lanes;
    const uint64_t stages_a_lane = lanes < stages ? stages : 1; /* one worker may come to run all that they have in common */
    if (micro > most)
        return (uint32_t)most;
    const uint64_t n = micro * stages_a_lane * EVENTS_A_MICRO + 64;
    return (uint32_t)(n < most ? n : most);
}

/* Nanoseconds as microseconds with three decimals. */
static void put_time(FILE *f, const char *name, uint64_t ns)
{
    fprintf(f, ",\"%s\":%" PRIu64 ".%03u", name, ns / 1000, (unsigned)(ns % 1000));
}

static uint64_t since(const struct zl_trace *t, uint64_t ns)
{
    return ns > t->origin_ns ? ns - t->origin_ns : 0;
}

static void put_event(FILE *f, const struct zl_trace *t, uint32_t lane, const struct zl_trace_event *e)
{
    fprintf(f, "{\"ph\":\"%c\",\"pid\":%u", e->kind < ZL_TRACE_SPANS ? 'X' : 'C', lane + 1);
    if (e->kind < ZL_TRACE_SPANS) {
        fprintf(f, ",\"tid\":%u", e->stage);
        put_time(f, "ts", since(t, e->begin_ns));
        put_time(f, "dur", e->end_ns > e->begin_ns ? e->end_ns - e->begin_ns : 0);
        fprintf(f, ",\"name\":\"%s\",\"args\":{\"step\":%u,\"micro\":%u}},\n", zl_trace_names[e->kind], e->step, e->micro);
    } else {
        put_time(f, "ts", since(t, e->begin_ns));
        fprintf(f, ",\"name\":\"stage %u %s\",\"args\":{\"value\":%" PRIu64 "}},\n", e->stage, zl_trace_names[e->kind], e->end_ns);
    }
}

/* Name a worker's process and the threads of the stages that it ran. */
static void put_names(FILE *f, const struct zl_trace_lane *l, uint32_t lane)
{
    unsigned char seen[UINT16_MAX + 1] = {0};
    fprintf(f, "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_name\",\"args\":{\"name\":\"%s\"}},\n", lane + 1, l->name);
    fprintf(f, "{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}},\n", lane + 1, lane);
    for (uint32_t i = 0; i < l->n; i++) {
        const uint16_t stage = l->event[i].stage;
        if (seen[stage] || l->event[i].kind >= ZL_TRACE_SPANS)
            continue;
        seen[stage] = 1;
        fprintf(f, "{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":", lane + 1, stage);
        if (stage == ZL_TRACE_NO_STAGE)
            fputs("\"waiting\"}},\n", f);
        else
            fprintf(f, "\"stage %u\"}},\n", stage);
    }
}

int zl_trace_file_write(struct zl_trace_file *t, const struct zl_trace *trace, const json_t *about, struct zl_error *err)
{
    uint64_t dropped = 0, kept = 0;
    struct stat st;
    if (!t->f)
        return 0;
    if (fstat(fileno(t->f), &st) == 0 && S_ISREG(st.st_mode) && ftruncate(fileno(t->f), 0))
        return zl_fail_errno(err, ZL_ESYSTEM, "the trace %s cannot be emptied", t->path);
    char *text = about ? json_dumps(about, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    fprintf(t->f, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\"traceEvents\":[\n", text ? text : "{}");
    free(text);
    for (uint32_t i = 0; i < trace->n_lanes; i++) {
        const struct zl_trace_lane *l = &trace->lane[i];
        put_names(t->f, l, i);
        for (uint32_t e = 0; e < l->n; e++)
            put_event(t->f, trace, i, &l->event[e]);
        dropped += l->dropped;
        kept += l->n;
    }
    fprintf(t->f, "{\"ph\":\"M\",\"pid\":1,\"name\":\"dropped\",\"args\":{\"events\":%" PRIu64 "}}\n]}\n", dropped);
    t->is_new = false;
    const bool failed = ferror(t->f) != 0;
    if (fclose(t->f) || failed) {
        t->f = NULL;
        return zl_fail_errno(err, ZL_ESYSTEM, "the trace %s cannot be written", t->path);
    }
    t->f = NULL;
    if (dropped)
        zl_warn("the trace %s holds the first %" PRIu64 " events of the run; there was no room for %" PRIu64 " more", t->path, kept,
                dropped);
    else
        zl_note("trace of %" PRIu64 " events written to %s", kept, t->path);
    return 0;
}

void zl_trace_file_close(struct zl_trace_file *t)
{
    if (t->f)
        fclose(t->f);
    if (t->path && t->is_new)
        unlink(t->path); /* nothing was written: leave nothing */
    *t = (struct zl_trace_file){0};
}

int zl_tracing_open(struct zl_tracing *t, const char *path, struct zl_error *err)
{
    *t = (struct zl_tracing){0};
    return zl_trace_file_open(&t->file, path, err);
}

struct zl_trace *zl_tracing_begin(struct zl_tracing *t, uint64_t micro, uint32_t stages, uint32_t workers, struct zl_error *err)
{
    if (!t->file.f || zl_trace_open(&t->trace, workers, zl_trace_events(micro, stages, workers), err))
        return NULL;
    return &t->trace;
}

int zl_tracing_end(struct zl_tracing *t, json_t *about, struct zl_error *err)
{
    int rc = t->trace.n_lanes ? zl_trace_file_write(&t->file, &t->trace, about, err) : 0;
    json_decref(about);
    return rc;
}

void zl_tracing_close(struct zl_tracing *t)
{
    zl_trace_file_close(&t->file);
    zl_trace_close(&t->trace);
}
