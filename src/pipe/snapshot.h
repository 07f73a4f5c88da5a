/*
 * Where a stage's state goes when a checkpoint's marker passes it. The stages know this and nothing of files, formats or writers: whoever
 * starts the pipeline hands in the function, src/store has one (zl_checkpoints_sink). A sink without a function takes nothing.
 */
#ifndef ZL_PIPE_SNAPSHOT_H
#define ZL_PIPE_SNAPSHOT_H

#include <stdint.h>

struct zl_snapshot_sink {
    /* Copy `bytes` more bytes of part (stage, section) of a generation. The parts and their sizes were agreed before the run: the calls for
     * one part append to it, in order and from one thread at a time, until it is whole; calls for different stages may come at the same
     * time, and a stage may be a generation ahead of another. `data` is the caller's again on return. 0, or a negative number when this
     * generation is lost already: nothing was copied, further calls for it may be left out, and the run goes on. Allocates nothing and
     * touches no file; waits only when the sink was given less memory than a generation needs. */
    int (*put)(void *context, uint64_t generation, uint32_t stage, uint32_t section, const void *data, uint64_t bytes);
    void *context;
};

#endif
