/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_USED_H
#define GPUSHARE_SHIM_API_USED_H
/*
 * CUDA objects that all sessions, buffers and maps of this process use together; the last use ends
 * the object. Unified memory has one address in all processes, so it is mapped here once. Only
 * host_only buffers don't use that mapping: api_map.c maps their file for itself. And CUDA opens no
 * event in the process that created it.
 */
#include "api_session.h"

struct used_object {
	uint64_t key; /* the mapping's address, or the CUevent */
	const struct driver *driver;
	cu_context context;
	struct vmm_mapping mapping; /* its size is 0: an event */
	uint64_t generation;	    /* of unified memory; else 0 */
	bool kept; /* of an event: the context is a primary one, which a session retains */
};

/* Start counting the uses of a new object; the caller is the first. */
int used_add(const struct used_object *object);
/* Count one more use, and copy the object. If `out_object` is NULL, only look for the object.
 * False: this copy of the library has no such object. Each use ends with used_drop(), or
 * unified_drop() for a mapping. */
bool used_take(uint64_t key, uint64_t generation, struct used_object *out_object);
int used_drop(uint64_t key);
int unified_drop(uint64_t base);
/* The unified buffer at `base` gets generation `to`: its first one (`generation` is 0), or another
 * one from a restarted registry. */
void used_rename(uint64_t base, uint64_t generation, uint64_t to);

/* Map the unified memory of `fd` at the address that it has in all processes; if it is mapped
 * already, count one more use. The buffer's device is known and its context current. */
int unified_map(struct gpushare_buffer *buffer, const record *from, int fd, bool read_only);
/* Count a new mapping of unified memory: the caller is the first to use it. `generation`: of its
 * buffer; 0 if it has none so far. */
int unified_add(const struct driver *driver, cu_context context, const struct vmm_mapping *mapping,
		uint64_t generation);

#endif
