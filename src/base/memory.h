/*
 * How much memory this process holds and how much the system could still give. Both come from /proc, so both are 0 (unknown) elsewhere.
 */
#ifndef ZL_BASE_MEMORY_H
#define ZL_BASE_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Proportional set size of this process in bytes: pages shared with others count in parts, mapped model files included.
 * *anonymous (may be NULL) receives the part beyond mapped files, shared-memory segments included. 0 where the kernel does not tell. */
uint64_t zl_memory_pss(uint64_t *anonymous);

/* Bytes that can still be allocated without pushing others out: MemAvailable, or less where the memory cgroup allows less. UINT64_MAX
 * where the system does not tell. */
uint64_t zl_memory_available(void);

/* The parsers behind these, for tests. Value of "name:   123 kB" in bytes; false when there is no such line. */
bool zl_memory_field(const char *text, const char *name, uint64_t *bytes);

#endif
