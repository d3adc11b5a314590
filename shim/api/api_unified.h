/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_UNIFIED_H
#define GPUSHARE_SHIM_API_UNIFIED_H
/*
 * Unified buffers in this process: their memory has one address, so it is mapped once, for however
 * many sessions, buffers and maps; the last of them unmaps it.
 */
#include "api_source.h"

/* Make it, with its descriptor, for gpushare_alloc_with(). The device's context is current. */
int unified_make(const struct driver *driver, struct source *source, const char *name);
/* Map what came as a descriptor where all others have it, or count what is mapped already. The
 * buffer's device is known and its context current. */
int unified_map(struct gpushare_buffer *buffer, const record *from, int fd, bool read_only);
/* What unified_make() made is a buffer now, to be counted. */
int unified_add(const struct gpushare_buffer *buffer);

/* Another one uses it: false where it is not mapped by us. Each use ends with a drop of its base. */
bool unified_use(uint64_t base, uint64_t generation, struct vmm_mapping *out_mapping);
int unified_drop(uint64_t base);
bool unified_has(uint64_t base, uint64_t generation);
/* A registry that came since has another number for what is mapped there. */
void unified_rename(uint64_t base, uint64_t generation, uint64_t to);

#endif
