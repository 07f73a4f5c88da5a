/* What the parts of the store share about generations' files and names; not for other layers. See generation.h. */
#ifndef ZL_STORE_GENERATION_IMPL_H
#define ZL_STORE_GENERATION_IMPL_H

#include "store/format.h"

#define ZL_CHECKPOINTS "checkpoints" /* in the run's folder */
#define ZL_SUFFIX ".zlc"
#define ZL_SUFFIX_TMP ".tmp"
#define ZL_SUFFIX_ASIDE ".aside"

struct zl_generation_file {
    int fd;
    bool direct;
    char *what; /* its path, for sentences */
    uint64_t bytes;
    struct zl_layout layout;
    struct zl_head head;
    unsigned char *index;  /* padded */
    unsigned char *buffer; /* aligned, for reading */
};

/* Writes "0000000042-step-1200.zlc" */
void zl_generation_name(char name[80], uint64_t generation, uint64_t step);
/* A name of ours, with or without .aside or .tmp; false: somebody else's file. */
bool zl_generation_parse(const char *name, uint64_t *generation, uint64_t *step, bool *aside, bool *tmp);

/* As zl_generation_open, in an open folder; number and step must be those. what: a path for sentences; copied. */
int zl_generation_open_at(struct zl_generation *g, int folder, const char *name, const char *what, uint64_t generation, uint64_t step,
                          struct zl_error *err);
/* The same of an open file, which becomes g's own whatever happens. */
int zl_generation_open_fd(struct zl_generation *g, int fd, const char *what, struct zl_error *err);

/* The folder of generations, opened; -1 and errno. */
int zl_checkpoints_folder(const char *run_dir);

#endif
