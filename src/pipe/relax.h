/* One look of a thread that waits awake: leaves the core to its sibling for a moment. */
#ifndef ZL_PIPE_RELAX_H
#define ZL_PIPE_RELAX_H

static inline void zl_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

#endif
