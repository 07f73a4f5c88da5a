/* The callers' side of the checkpoint writer: opening, begin, put, poll. See checkpoint.h and checkpoint_impl.h. */
#include "config.h"

#include "store/checkpoint_impl.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file.h"

/* ---- opening and closing --------------------------------------------------------------------------------------------- */

static uint64_t index_room(const struct zl_layout *l)
{
    const uint64_t text_blocks = ZL_FORMAT_TEXT_MOST / l->block_bytes + 1;
    return zl_format_padded((l->part_blocks + text_blocks) * sizeof(struct zl_hash));
}

static uint32_t count_stages(const struct zl_layout *l)
{
    uint32_t n = 1;
    for (uint32_t i = 1; i < l->n_parts; i++)
        n += l->part[i].part.stage != l->part[i - 1].part.stage;
    return n;
}

/* A block of every part at once is the most that a generation needs; less than one a stage and some at the writer would be a queue of
 * people waiting for each other. */
static uint64_t count_slots(const struct zl_layout *l, uint64_t buffer_bytes)
{
    const uint64_t least = count_stages(l) + 2, wanted = buffer_bytes / l->block_bytes;
    if (!buffer_bytes || wanted > l->part_blocks)
        return l->part_blocks > least ? l->part_blocks : least;
    return wanted > least ? wanted : least;
}

int zl_checkpoints_plan(const struct zl_checkpoints_options *o, uint64_t *memory_bytes, uint64_t *file_bytes, struct zl_error *err)
{
    struct zl_layout l;
    int rc = zl_layout_make(&l, o->parts, o->n_parts, ZL_FORMAT_BLOCK, err);
    if (rc)
        return rc;
    *memory_bytes = (count_slots(&l, o->buffer_bytes) + ZL_DISK_ROOMS) * l.block_bytes + ZL_OPEN_MOST * index_room(&l) +
                    l.n_parts * (sizeof *l.part + sizeof(uint32_t) + ZL_OPEN_MOST * sizeof(struct zl_filling)) + l.head_bytes +
                    ZL_FORMAT_BLOCK_MOST; /* the reader's, while it verifies */
    *file_bytes = l.file_bytes;
    zl_layout_free(&l);
    return 0;
}

static int allocate(struct zl_checkpoints *c, uint64_t buffer_bytes)
{
    const struct zl_layout *l = &c->layout;
    c->n_slots = count_slots(l, buffer_bytes);
    c->n_stages = count_stages(l);
    c->slots = calloc(c->n_slots, sizeof *c->slots);
    c->memory = malloc(c->n_slots * l->block_bytes);
    c->stage_of = calloc(l->n_parts, sizeof *c->stage_of);
    c->head = aligned_alloc(ZL_FORMAT_PAGE, l->head_bytes);
    if (!c->slots || !c->memory || !c->stage_of || !c->head)
        return -1;
    /* touched now, so that no stage waits for pages later */
    memset(c->memory, 0, c->n_slots * l->block_bytes);
    for (uint64_t i = 0; i < c->n_slots; i++) {
        c->slots[i] = (struct zl_slot){.next = c->free, .data = c->memory + i * l->block_bytes};
        c->free = &c->slots[i];
    }
    for (uint32_t i = 1; i < l->n_parts; i++)
        c->stage_of[i] = c->stage_of[i - 1] + (l->part[i].part.stage != l->part[i - 1].part.stage);
    for (uint32_t i = 0; i < ZL_OPEN_MOST; i++) {
        struct zl_pending *p = &c->pending[i];
        *p = (struct zl_pending){.folder = -1, .file = {.fd = -1, .folder = -1}};
        p->filling = calloc(l->n_parts, sizeof *p->filling);
        p->stage_part = calloc(c->n_stages, sizeof *p->stage_part);
        p->index = aligned_alloc(ZL_FORMAT_PAGE, index_room(l));
        if (!p->filling || !p->stage_part || !p->index)
            return -1;
        memset(p->index, 0, index_room(l));
    }
    return 0;
}

static void release(struct zl_checkpoints *c)
{
    for (uint32_t i = 0; i < ZL_OPEN_MOST; i++) {
        free(c->pending[i].filling);
        free(c->pending[i].stage_part);
        free(c->pending[i].index);
    }
    zl_disk_close(&c->disk);
    zl_layout_free(&c->layout);
    pthread_cond_destroy(&c->work);
    pthread_cond_destroy(&c->room);
    pthread_cond_destroy(&c->settled);
    pthread_mutex_destroy(&c->mutex);
    free(c->kept);
    free(c->head);
    free(c->stage_of);
    free(c->slots);
    free(c->memory);
    free(c->run_dir);
    free(c->dir);
    free(c);
}

/* Signals are for the threads that know what to do about them. */
static int start(struct zl_checkpoints *c, struct zl_error *err)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    const int rc = pthread_create(&c->thread, NULL, zl_writer_run, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = rc;
    return rc ? zl_fail_errno(err, ZL_ESYSTEM, "the checkpoint writer cannot be started") : 0;
}

int zl_checkpoints_open(struct zl_checkpoints **out, const char *run_dir, const struct zl_checkpoints_options *o, char note[256],
                        struct zl_error *err)
{
    pthread_condattr_t monotonic;
    struct zl_checkpoints *c = calloc(1, sizeof *c);
    *out = NULL;
    note[0] = '\0';
    if (!c)
        return zl_fail(err, ZL_EMEMORY, "no memory for checkpoints");
    pthread_mutex_init(&c->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&c->work, NULL);
    pthread_cond_init(&c->room, NULL);
    pthread_cond_init(&c->settled, &monotonic);
    pthread_condattr_destroy(&monotonic);
    c->queue_end = &c->queue;
    c->run = o->run;
    c->keep = o->keep ? o->keep : 1;
    c->run_dir = strdup(run_dir);
    c->dir = zl_path_join(run_dir, ZL_CHECKPOINTS);
    int rc = zl_layout_make(&c->layout, o->parts, o->n_parts, ZL_FORMAT_BLOCK, err);
    if (!rc && (!c->run_dir || !c->dir || allocate(c, o->buffer_bytes) ||
                zl_disk_open(&c->disk, ZL_FORMAT_BLOCK, o->plain, o->buffered, o->disk, o->disk_context, note)))
        rc = zl_fail(err, ZL_EMEMORY, "no memory for checkpoints of %.0f MiB", (double)c->layout.file_bytes / 1048576.0);
    if (!rc)
        rc = zl_writer_make_folder(c, err);
    if (!rc)
        rc = zl_retain_open(c, err);
    if (!rc)
        rc = zl_retain_check_space(c, err);
    if (!rc)
        rc = start(c, err);
    if (rc)
        release(c);
    else
        *out = c;
    return rc;
}

/* Mutex held. */
static void lose(struct zl_checkpoints *c, struct zl_pending *p, const char *why)
{
    if (!p->lost) {
        p->lost = true;
        p->rc = ZL_ESTOPPED;
        snprintf(p->why, sizeof p->why, "%s", why);
    }
    pthread_cond_signal(&c->work);
    pthread_cond_broadcast(&c->room);
}

void zl_checkpoints_close(struct zl_checkpoints *c)
{
    if (!c)
        return;
    pthread_mutex_lock(&c->mutex);
    c->closing = true;
    for (uint32_t i = 0; i < ZL_OPEN_MOST; i++)
        if (c->pending[i].used && !c->pending[i].complete)
            lose(c, &c->pending[i], "the run ended before it was complete");
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->mutex);
    pthread_join(c->thread, NULL);
    release(c);
}

/* ---- the driver ------------------------------------------------------------------------------------------------------ */

static struct zl_pending *find(struct zl_checkpoints *c, uint64_t generation)
{
    for (uint32_t i = 0; i < ZL_OPEN_MOST; i++)
        if (c->pending[i].used && c->pending[i].generation == generation)
            return &c->pending[i];
    return NULL;
}

int zl_checkpoint_begin(struct zl_checkpoints *c, uint64_t step, uint64_t *generation)
{
    struct zl_pending *p = NULL;
    uint32_t used = 0;
    pthread_mutex_lock(&c->mutex);
    for (uint32_t i = 0; i < ZL_OPEN_MOST; i++)
        if (c->pending[i].used)
            used++;
        else
            p = &c->pending[i];
    if (!p || c->n_events + used >= ZL_EVENTS_MOST) {
        pthread_mutex_unlock(&c->mutex);
        return ZL_CHECKPOINT_BUSY;
    }
    p->lost = p->dropped = p->complete = p->has_text = p->created = false;
    p->rc = 0;
    p->why[0] = '\0';
    p->parts_left = c->layout.n_parts;
    p->step = step;
    p->generation = *generation = c->next_generation++;
    zl_generation_name(p->name, p->generation, step);
    snprintf(p->tmp, sizeof p->tmp, "%s" ZL_SUFFIX_TMP, p->name);
    for (uint32_t i = 0; i < c->layout.n_parts; i++)
        p->filling[i] = (struct zl_filling){0};
    for (uint32_t i = 0; i < c->n_stages; i++)
        p->stage_part[i] = ZL_NO_PART;
    p->used = true;
    pthread_mutex_unlock(&c->mutex);
    return 0;
}

/* Mutex held: when the last of it has arrived, it is the writer's. */
static void note_complete(struct zl_checkpoints *c, struct zl_pending *p)
{
    if (p->complete || p->lost || p->parts_left || !p->has_text)
        return;
    p->complete = true;
    p->complete_ns = zl_clock_ns();
    pthread_cond_signal(&c->work);
}

int zl_checkpoint_text(struct zl_checkpoints *c, uint64_t generation, const char *text, uint64_t bytes, struct zl_error *err)
{
    if (bytes > ZL_FORMAT_TEXT_MOST)
        return zl_fail(err, ZL_EINPUT, "the text of a checkpoint has %llu bytes, at most %u fit", (unsigned long long)bytes,
                       ZL_FORMAT_TEXT_MOST);
    char *copy = malloc((size_t)bytes + 1);
    if (!copy)
        return zl_fail(err, ZL_EMEMORY, "no memory for the text of a checkpoint");
    memcpy(copy, text, (size_t)bytes);
    pthread_mutex_lock(&c->mutex);
    struct zl_pending *p = find(c, generation);
    if (p && !p->lost && !p->has_text) {
        p->text = copy;
        p->text_bytes = bytes;
        p->has_text = true;
        copy = NULL;
        note_complete(c, p);
    }
    pthread_mutex_unlock(&c->mutex);
    free(copy); /* of one that is lost already */
    return 0;
}

void zl_checkpoint_drop(struct zl_checkpoints *c, uint64_t generation)
{
    pthread_mutex_lock(&c->mutex);
    struct zl_pending *p = find(c, generation);
    if (p && !p->complete) {
        p->dropped = !p->lost;
        lose(c, p, "it was given up");
    }
    pthread_mutex_unlock(&c->mutex);
}

bool zl_checkpoint_poll(struct zl_checkpoints *c, struct zl_checkpoint_event *out)
{
    pthread_mutex_lock(&c->mutex);
    const bool any = c->n_events > 0;
    if (any) {
        *out = c->event[c->first_event];
        c->first_event = (c->first_event + 1) % ZL_EVENTS_MOST;
        c->n_events--;
    }
    pthread_mutex_unlock(&c->mutex);
    return any;
}

bool zl_checkpoint_wait(struct zl_checkpoints *c, uint64_t generation, int64_t timeout_ns)
{
    const uint64_t until = zl_clock_ns() + (uint64_t)(timeout_ns > 0 ? timeout_ns : 0);
    const struct timespec t = {.tv_sec = (time_t)(until / 1000000000u), .tv_nsec = (long)(until % 1000000000u)};
    int rc = 0;
    pthread_mutex_lock(&c->mutex);
    while (find(c, generation) && rc != ETIMEDOUT)
        rc = pthread_cond_timedwait(&c->settled, &c->mutex, &t);
    const bool settled = !find(c, generation);
    pthread_mutex_unlock(&c->mutex);
    return settled;
}

void zl_checkpoint_totals(struct zl_checkpoints *c, struct zl_checkpoint_totals *out)
{
    pthread_mutex_lock(&c->mutex);
    *out = c->totals;
    pthread_mutex_unlock(&c->mutex);
}

/* ---- the stages ------------------------------------------------------------------------------------------------------ */

/* A slot for the part's next block; waits while there is none. NULL: the generation is lost. */
static struct zl_slot *take_slot(struct zl_checkpoints *c, struct zl_pending *p, uint32_t part, uint64_t *wait_ns)
{
    pthread_mutex_lock(&c->mutex);
    if (!c->free && !p->lost) {
        const uint64_t since = zl_clock_ns();
        while (!c->free && !p->lost)
            pthread_cond_wait(&c->room, &c->mutex);
        *wait_ns += zl_clock_ns() - since;
    }
    struct zl_slot *s = p->lost ? NULL : c->free;
    if (s) {
        c->free = s->next;
        s->next = NULL;
        s->generation = p;
        s->part = part;
        s->bytes = 0;
        s->block = p->filling[part].arrived / c->layout.block_bytes;
        p->filling[part].slot = s;
    }
    pthread_mutex_unlock(&c->mutex);
    return s;
}

static void queue_slot(struct zl_checkpoints *c, struct zl_pending *p, uint32_t part, bool whole)
{
    pthread_mutex_lock(&c->mutex);
    struct zl_slot *s = p->filling[part].slot;
    p->filling[part].slot = NULL;
    *c->queue_end = s;
    c->queue_end = &s->next;
    if (whole && --p->parts_left == 0)
        note_complete(c, p);
    pthread_cond_signal(&c->work);
    pthread_mutex_unlock(&c->mutex);
}

static int copy_in(struct zl_checkpoints *c, struct zl_pending *p, uint32_t part, const unsigned char *data, uint64_t bytes,
                   uint64_t *wait_ns)
{
    struct zl_filling *f = &p->filling[part];
    const uint64_t whole = c->layout.part[part].part.bytes;
    while (bytes) {
        struct zl_slot *s = f->slot ? f->slot : take_slot(c, p, part, wait_ns);
        if (!s)
            return ZL_ESTOPPED;
        const uint64_t room = c->layout.block_bytes - s->bytes, n = bytes < room ? bytes : room;
        memcpy(s->data + s->bytes, data, (size_t)n);
        s->bytes += (uint32_t)n;
        f->arrived += n;
        data += n;
        bytes -= n;
        if (s->bytes == c->layout.block_bytes || f->arrived == whole)
            queue_slot(c, p, part, f->arrived == whole);
    }
    return 0;
}

/* Mutex held. A stage fills its parts one after the other: with little memory two that were begun could wait for each other. */
static bool acceptable(struct zl_checkpoints *c, struct zl_pending *p, uint32_t part, uint64_t bytes)
{
    const struct zl_checkpoint_part *q = &c->layout.part[part].part;
    uint32_t *open = &p->stage_part[c->stage_of[part]];
    char why[200];
    if (bytes > q->bytes - p->filling[part].arrived)
        snprintf(why, sizeof why, "stage %u gave more than the %llu bytes of its section %u", q->stage, (unsigned long long)q->bytes,
                 q->section);
    else if (*open != ZL_NO_PART && *open != part)
        snprintf(why, sizeof why, "stage %u began section %u before section %u was whole", q->stage, q->section,
                 c->layout.part[*open].part.section);
    else {
        *open = bytes == q->bytes - p->filling[part].arrived ? ZL_NO_PART : part;
        return true;
    }
    lose(c, p, why);
    return false;
}

int zl_checkpoint_put(struct zl_checkpoints *c, uint64_t generation, uint32_t stage, uint32_t section, const void *data, uint64_t bytes)
{
    const uint32_t part = zl_layout_find(&c->layout, stage, section);
    const uint64_t since = zl_clock_ns();
    uint64_t wait_ns = 0;
    pthread_mutex_lock(&c->mutex);
    struct zl_pending *p = find(c, generation);
    if (p && !p->lost && part == c->layout.n_parts)
        lose(c, p, "a stage gave a section that was not agreed before the run");
    if (!p || p->lost || !acceptable(c, p, part, bytes)) {
        pthread_mutex_unlock(&c->mutex);
        return ZL_ESTOPPED;
    }
    p->puts++;
    pthread_mutex_unlock(&c->mutex);
    const int rc = copy_in(c, p, part, data, bytes, &wait_ns);
    pthread_mutex_lock(&c->mutex);
    if (--p->puts == 0 && (p->lost || p->complete)) /* from here on p may be another generation */
        pthread_cond_signal(&c->work);
    c->totals.put_ns += zl_clock_ns() - since;
    c->totals.wait_ns += wait_ns;
    pthread_mutex_unlock(&c->mutex);
    return rc;
}

static int sink_put(void *context, uint64_t generation, uint32_t stage, uint32_t section, const void *data, uint64_t bytes)
{
    return zl_checkpoint_put(context, generation, stage, section, data, bytes);
}

struct zl_snapshot_sink zl_checkpoints_sink(struct zl_checkpoints *c)
{
    return (struct zl_snapshot_sink){.put = sink_put, .context = c};
}
