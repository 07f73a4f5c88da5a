/*
 * What the checkpoint writer does to the disk, as a table of operations: io_uring (disk_uring.c), pwrite (disk_plain.c), or a test's that
 * records them. One thread uses a disk. Bytes go out from rooms: a few aligned buffers that belong to the disk and are registered with the
 * kernel where that is possible; a room is the caller's from `room` until it is written, and at most one at a time.
 *
 * Every operation gives 0 or a negative errno. A write may fail later than its call: the first failure of a file stays with it and comes
 * back from every later operation on it, from `finish` at the latest. After a failed sync a file is lost, whatever a second sync would say.
 */
#ifndef ZL_STORE_DISK_H
#define ZL_STORE_DISK_H

#include <stdbool.h>
#include <stdint.h>

#define ZL_DISK_ROOMS 16u

struct zl_disk;

struct zl_disk_file {
    int folder, fd; /* descriptors; -1: closed */
    int error;      /* negative errno of the first failure */
    bool direct;    /* past the page cache */
    char name[80];  /* in the folder */
};

struct zl_disk_ops {
    /* A new file that nobody else has, with room for `bytes` reserved where the file system can. f->folder is set by the caller. */
    int (*create)(struct zl_disk *d, struct zl_disk_file *f, const char *name, uint64_t bytes);
    unsigned char *(*room)(struct zl_disk *d);
    int (*write)(struct zl_disk *d, struct zl_disk_file *f, uint64_t offset, unsigned char *room, uint32_t bytes);
    /* The last write, and the sync behind it and all before. */
    int (*finish)(struct zl_disk *d, struct zl_disk_file *f, uint64_t offset, unsigned char *room, uint32_t bytes);
    int (*close)(struct zl_disk *d, struct zl_disk_file *f); /* waits for writes under way; fd is -1 after it, whatever it returns */
    int (*rename)(struct zl_disk *d, int folder, const char *from, const char *to);
    int (*remove)(struct zl_disk *d, int folder, const char *name);
    int (*sync_folder)(struct zl_disk *d, int folder);
};

struct zl_disk {
    const struct zl_disk_ops *ops;
    void *context; /* a test's */
    unsigned char *rooms;
    uint32_t room_bytes, next_room;
    bool buffered; /* no O_DIRECT wanted */
    void *ring;    /* of disk_uring.c; NULL: pwrite */
};

/* Allocate the rooms and choose the back end. note: why io_uring is not it, as a sentence; empty when it is, or when `plain` asks for
 * pwrite. ops: NULL, or a test's own. room_bytes: a multiple of the page. */
int zl_disk_open(struct zl_disk *d, uint32_t room_bytes, bool plain, bool buffered, const struct zl_disk_ops *ops, void *context,
                 char note[256]);
void zl_disk_close(struct zl_disk *d);
/* "io_uring, direct"; static. */
const char *zl_disk_name(const struct zl_disk *d, const struct zl_disk_file *f);

extern const struct zl_disk_ops zl_disk_plain, zl_disk_uring;

/* 0, or why not: a negative errno and a sentence. The caller has made the rooms. */
int zl_disk_uring_open(struct zl_disk *d, char note[256]);
void zl_disk_uring_close(struct zl_disk *d);

/* What both back ends do alike. */
int zl_disk_create(struct zl_disk *d, struct zl_disk_file *f, const char *name, uint64_t bytes);
int zl_disk_close_file(struct zl_disk *d, struct zl_disk_file *f);
int zl_disk_rename(struct zl_disk *d, int folder, const char *from, const char *to);
int zl_disk_remove(struct zl_disk *d, int folder, const char *name);
int zl_disk_sync_folder(struct zl_disk *d, int folder);

/* A direct write that was refused for what it is (EINVAL) goes through the page cache from now on: true when that is worth a try. */
bool zl_disk_undirect(struct zl_disk_file *f);

#endif
