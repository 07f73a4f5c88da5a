/*
 * What the writer does to the disk for one generation. The order is the whole point:
 *
 *     create NAME.tmp; its blocks; text, index, head; the foot linked to fsync; close      nobody looks at a .tmp
 *     read it back from the disk and check every hash                                      it is what was meant
 *     rename NAME.tmp to NAME; fsync of the folder                                         from here on it is the newest
 *     remove what `keep` newer verified ones make superfluous
 *
 * so at every instant, and whatever part of the unsynced operations a power cut leaves, each file with a full name is whole. The .tmp of
 * an interrupted writer goes when the next one opens the folder. Runs on the writer's thread without the mutex: see checkpoint_impl.h.
 */
#include "config.h"

#include "store/checkpoint_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/file.h"

static int fail(const struct zl_checkpoints *c, const struct zl_pending *p, int error, const char *verb, struct zl_error *err)
{
    errno = -error;
    return zl_fail_errno(err, ZL_ESYSTEM, "cannot %s %s/%s", verb, c->dir, p->tmp);
}

/* The names of the folders must outlast a power cut too, or all that is in them goes. Whoever made the run's may not be allowed to sync the
 * one above. */
int zl_writer_make_folder(const struct zl_checkpoints *c, struct zl_error *err)
{
    char *above = zl_path_join(c->run_dir, "..");
    int rc = zl_folder_make(c->dir, err);
    if (!rc)
        rc = zl_folder_sync(c->run_dir, err);
    if (!rc && above)
        zl_folder_sync(above, NULL);
    free(above);
    return rc;
}

/* The folder is opened anew each time: it may be gone, or have come back. */
static int create(struct zl_checkpoints *c, struct zl_pending *p, struct zl_error *err)
{
    p->folder = zl_checkpoints_folder(c->run_dir);
    if (p->folder < 0 && errno == ENOENT && access(c->run_dir, F_OK) == 0 && zl_writer_make_folder(c, NULL) == 0)
        p->folder = zl_checkpoints_folder(c->run_dir);
    if (p->folder < 0)
        return zl_fail_errno(err, ZL_ESYSTEM, "cannot open folder %s", c->dir);
    p->file = (struct zl_disk_file){.folder = p->folder, .fd = -1};
    const int rc = c->disk.ops->create(&c->disk, &p->file, p->tmp, c->layout.text_offset);
    p->created = rc == 0 || p->file.fd >= 0;
    return rc ? fail(c, p, rc, "create", err) : 0;
}

/* One block, padded, into the file; its hash into the index. */
static int write_block(struct zl_checkpoints *c, struct zl_pending *p, uint64_t offset, const unsigned char *data, uint32_t bytes,
                       uint64_t index, struct zl_error *err)
{
    unsigned char *room = c->disk.ops->room(&c->disk);
    const uint32_t padded = (uint32_t)zl_format_padded(bytes);
    memcpy(room, data, bytes);
    memset(room + bytes, 0, padded - bytes);
    const struct zl_hash hash = zl_hash_of(room, padded);
    memcpy(p->index + index * sizeof hash, hash.byte, sizeof hash.byte);
    const int rc = c->disk.ops->write(&c->disk, &p->file, offset, room, padded);
    return rc ? fail(c, p, rc, "write", err) : 0;
}

int zl_writer_block(struct zl_checkpoints *c, const struct zl_slot *s, struct zl_error *err)
{
    struct zl_pending *p = s->generation;
    const struct zl_layout_part *part = &c->layout.part[s->part];
    int rc = p->created ? 0 : create(c, p, err);
    if (!rc)
        rc = write_block(c, p, part->offset + s->block * c->layout.block_bytes, s->data, s->bytes, part->first_block + s->block, err);
    return rc;
}

/* Pages that have no hash of their own in the index. */
static int write_pages(struct zl_checkpoints *c, struct zl_pending *p, uint64_t offset, const unsigned char *data, uint64_t bytes,
                       struct zl_error *err)
{
    for (uint64_t at = 0; at < bytes;) {
        unsigned char *room = c->disk.ops->room(&c->disk);
        const uint32_t n = bytes - at < c->disk.room_bytes ? (uint32_t)(bytes - at) : c->disk.room_bytes;
        memcpy(room, data + at, n);
        const int rc = c->disk.ops->write(&c->disk, &p->file, offset + at, room, n);
        if (rc)
            return fail(c, p, rc, "write", err);
        at += n;
    }
    return 0;
}

/* Text, index, head and foot; synced. */
static int write_frame(struct zl_checkpoints *c, struct zl_pending *p, struct zl_layout *l, struct zl_error *err)
{
    struct zl_head h = {.run = c->run, .generation = p->generation, .step = p->step};
    int rc = zl_layout_text(l, p->text_bytes) ? 0 : zl_fail(err, ZL_EINPUT, "the checkpoint is too large for one file");
    for (uint64_t at = 0, block = l->part_blocks; at < p->text_bytes && !rc; at += l->block_bytes, block++) {
        const uint64_t left = p->text_bytes - at;
        rc = write_block(c, p, l->text_offset + at, (const unsigned char *)p->text + at,
                         left < l->block_bytes ? (uint32_t)left : l->block_bytes, block, err);
    }
    if (rc)
        return rc;
    snprintf(h.program, sizeof h.program, "%s", PACKAGE_VERSION);
    memset(p->index + l->index_bytes, 0, zl_format_padded(l->index_bytes) - l->index_bytes);
    zl_head_encode(l, &h, c->head);
    rc = write_pages(c, p, l->index_offset, p->index, zl_format_padded(l->index_bytes), err);
    if (!rc)
        rc = write_pages(c, p, 0, c->head, l->head_bytes, err);
    if (rc)
        return rc;
    unsigned char *foot = c->disk.ops->room(&c->disk);
    zl_foot_encode(l, &h, c->head, p->index, foot);
    rc = c->disk.ops->finish(&c->disk, &p->file, l->file_bytes - ZL_FORMAT_PAGE, foot, ZL_FORMAT_PAGE);
    return rc ? fail(c, p, rc, "write", err) : 0;
}

static int read_back(const struct zl_checkpoints *c, const struct zl_pending *p, struct zl_error *err)
{
    struct zl_generation g;
    struct zl_error why = {0};
    char *what = zl_path_join(c->dir, p->tmp);
    int rc = what ? zl_generation_open_at(&g, p->folder, p->tmp, what, p->generation, p->step, &why)
                  : zl_fail(&why, ZL_EMEMORY, "no memory to read %s", p->tmp);
    if (!rc) {
        rc = zl_generation_verify(&g, &why);
        zl_generation_close(&g);
    }
    free(what);
    return rc ? zl_fail(err, rc, "what was written is not what can be read back: %s", why.text) : 0;
}

int zl_writer_commit(struct zl_checkpoints *c, struct zl_pending *p, struct zl_checkpoint_event *event, struct zl_error *err)
{
    const struct zl_disk_ops *ops = c->disk.ops;
    struct zl_layout l = c->layout;
    struct zl_error untidy = {0};
    int rc = write_frame(c, p, &l, err), closed = 0;
    if (!rc && (closed = ops->close(&c->disk, &p->file)))
        rc = fail(c, p, closed, "write", err);
    if (!rc)
        rc = read_back(c, p, err);
    int renamed = rc ? 0 : ops->rename(&c->disk, p->folder, p->tmp, p->name);
    if (renamed)
        rc = fail(c, p, renamed, "rename", err);
    if (rc) {
        zl_writer_discard(c, p);
        return rc;
    }
    const int synced = ops->sync_folder(&c->disk, p->folder);
    if (synced) { /* it is there, but a power cut may take its name: nothing may be removed for it */
        errno = -synced;
        rc = zl_fail_errno(err, ZL_ESYSTEM, "cannot sync folder %s", c->dir);
    }
    event->bytes = l.file_bytes;
    zl_retain_add(c, p, synced == 0);
    if (!rc) {
        event->removed = zl_retain_trim(c, p->folder, &untidy);
        snprintf(event->why, sizeof event->why, "%s", untidy.text);
    }
    close(p->folder);
    p->folder = -1;
    return rc;
}

void zl_writer_discard(struct zl_checkpoints *c, struct zl_pending *p)
{
    if (p->folder < 0)
        return;
    c->disk.ops->close(&c->disk, &p->file);
    if (p->created) /* where this fails too, the next opening removes it */
        c->disk.ops->remove(&c->disk, p->folder, p->tmp);
    close(p->folder);
    p->folder = -1;
    p->created = false;
}
