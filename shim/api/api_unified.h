/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_UNIFIED_H
#define GPUSHARE_SHIM_API_UNIFIED_H
/*
 * Unified buffers in this process. Their memory has one address in all processes, so it is mapped
 * here once. All sessions, buffers and maps use that mapping; the last of them unmaps it. Only
 * host_only buffers don't use it: api_map.c maps their file for itself.
 */
#include "api_session.h"

/* Map the memory of `fd` at its address in all processes; if it is mapped already, count one more
 * use. The buffer's device is known and its context current. */
int unified_map(struct gpushare_buffer *buffer, const record *from, int fd, bool read_only);
/* Start counting the uses of the buffer's new mapping; the buffer is the first. */
int unified_add(const struct gpushare_buffer *buffer);

/* Count one more use of the mapping at `base`. False: this library has not mapped that generation
 * there. Each use ends with unified_drop(). */
bool unified_use(uint64_t base, uint64_t generation, struct vmm_mapping *out_mapping);
int unified_drop(uint64_t base);
bool unified_has(uint64_t base, uint64_t generation);
/* A restarted registry has given the buffer at `base` another generation, `to`. */
void unified_rename(uint64_t base, uint64_t generation, uint64_t to);

#endif
