/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MAP_BACKEND_H
#define GPUSHARE_SHIM_MAP_BACKEND_H
/*
 * The ways to map a GPU's memory for the CPU, behind one interface. All mappings are coherent. If a
 * backend fails, it returns a status and sets the reason by api_fail(), as half a sentence that
 * api_map.c completes. api_map.c decides in which order backends are tried. It calls open() under
 * its lock, in one thread at a time; close() may be called by any thread at any time.
 */
#include <stdbool.h>

#include "core/api_status.h"

/* The memory to map: a whole allocation of cuMemCreate. */
struct map_source {
	const unsigned char *device_uuid;
	uint64_t size; /* of the whole allocation */
	int fd;	       /* its descriptor, which the caller closes */
	bool read_only;
	/* The memory's CUDA mapping in this process, for the GPU that holds the memory. `driver` is
	 * NULL, and the next three are unset, if there is none. */
	const struct driver *driver;
	cu_context context;
	int device;
	uint64_t pointer; /* device address of the whole allocation in this process */
};

struct map_memory {
	const struct map_backend *backend;
	void *address; /* of the first byte; page-aligned */
	uint64_t size;
	enum gpushare_caching caching;
	const void *owner; /* `owner` and `handle` are for the backend's use */
	uint64_t handle;
};

struct map_backend {
	const char *name;
	int (*open)(const struct map_source *source, struct map_memory *out_memory);
	void (*close)(const struct map_memory *memory);
};

extern const struct map_backend map_dmabuf, map_vulkan;

#endif
