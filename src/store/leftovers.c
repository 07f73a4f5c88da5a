/*
 * Temporary names of dead writers: see leftovers.h. Checkpoints have their own (retain.c). The names, N being digits:
 *
 *     FILE.tmp-N-N, FILE.tmp-N    zl_file_write, zl_safetensors_write
 *     adapter.tmp-N-N             zl_adapter_write: a folder with the adapter's two files, and with temporary ones of theirs
 *     adapter.tmp-N-N.old         the adapter before, where two names could not be exchanged: it may be the only one, and stays; so does the
 *                                 folder beside it, which is the new one, whole
 */
#include "config.h"

#include "store/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char adapter[] = "adapter";
static const char *const of_run[] = {"run.json", "config.yaml", "metrics.jsonl", "events.jsonl", "readouts.safetensors", NULL};
static const char *const of_adapter[] = {"adapter_config.json", "adapter_model.safetensors", NULL};

static const char *past_digits(const char *p)
{
    return p + strspn(p, "0123456789");
}

/* BASE.tmp-N-N, or BASE.tmp-N where that is made too. */
static bool is_temporary(const char *name, const char *base, bool short_form)
{
    static const char mark[] = ".tmp-";
    const size_t n = strlen(base);
    if (strncmp(name, base, n) != 0 || strncmp(name + n, mark, sizeof mark - 1) != 0)
        return false;
    const char *first = name + n + sizeof mark - 1, *behind = past_digits(first);
    if (behind == first)
        return false;
    if (!*behind)
        return short_form;
    return *behind == '-' && behind[1] && !*past_digits(behind + 1);
}

static bool is_kind(int folder, const char *name, mode_t kind)
{
    struct stat st;
    return fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && (st.st_mode & S_IFMT) == kind;
}

/* fd is taken over. */
static DIR *open_folder(int fd)
{
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    return d;
}

static bool is_of(const char *name, const char *const *bases, bool whole)
{
    for (; *bases; bases++)
        if (is_temporary(name, *bases, true) || (whole && strcmp(name, *bases) == 0))
            return true;
    return false;
}

static void remove_adapter(int folder, const char *name)
{
    char old[300];
    struct stat st;
    snprintf(old, sizeof old, "%s.old", name);
    if (fstatat(folder, old, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return;
    DIR *d = open_folder(openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    for (const struct dirent *e; d && (e = readdir(d));)
        if (is_of(e->d_name, of_adapter, true) && is_kind(dirfd(d), e->d_name, S_IFREG))
            unlinkat(dirfd(d), e->d_name, 0);
    if (d)
        closedir(d);
    unlinkat(folder, name, AT_REMOVEDIR); /* fails where there is more in it */
}

void zl_leftovers_remove(const char *dir)
{
    DIR *d = open_folder(open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (is_temporary(e->d_name, adapter, false) && is_kind(dirfd(d), e->d_name, S_IFDIR))
            remove_adapter(dirfd(d), e->d_name);
        else if (is_of(e->d_name, of_run, false) && is_kind(dirfd(d), e->d_name, S_IFREG))
            unlinkat(dirfd(d), e->d_name, 0);
    }
    if (d)
        closedir(d);
}
