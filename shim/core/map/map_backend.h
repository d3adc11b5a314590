/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MAP_BACKEND_H
#define GPUSHARE_SHIM_MAP_BACKEND_H
/*
 * The ways to let the CPU into a GPU's memory, each behind the same calls. A way that can't do it
 * gives a status and the reason, half a sentence; which way is tried when is map.c's affair. Opening
 * is one caller's at a time (map.c's lock); the rest is for any thread.
 */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include "cuda/driver.h"
#include "gpushare.h"

/* The memory: a whole allocation of cuMemCreate. */
struct map_source {
	const unsigned char *device_uuid;
	uint64_t size; /* as it was made */
	int fd;	       /* its descriptor, the caller's */
	bool coherent; /* needed */
	bool read_only;
	const struct driver *driver; /* NULL: nothing of the next three; not mapped by CUDA here, or
				      * for another GPU than its own */
	cu_context context;
	int device;
	uint64_t pointer; /* of all of it, as CUDA has mapped it here */
};

struct map_memory {
	const struct map_backend *backend;
	void *address; /* of the first byte, on a page */
	uint64_t size;
	enum gpushare_caching caching;
	bool coherent;
	size_t atom_size;
	const void *owner; /* this and the next: the backend's own */
	uint64_t handle;
};

struct map_reason {
	char text[320];
};

struct map_backend {
	const char *name;
	int (*open)(const struct map_source *source, struct map_memory *out_memory,
		    struct map_reason *why);
	void (*close)(const struct map_memory *memory);
	/* Where it is not coherent: what the CPU stored goes to the GPU, or what the GPU wrote comes
	 * to the CPU, in a part of it. Else NULL. */
	int (*flush)(const struct map_memory *memory, uint64_t offset, uint64_t length,
		     struct map_reason *why);
	int (*invalidate)(const struct map_memory *memory, uint64_t offset, uint64_t length,
			  struct map_reason *why);
};

/* B(name): in the order in which they are tried */
#define MAP_BACKENDS(B) B(dmabuf) B(vulkan)

#define B(name) extern const struct map_backend map_##name;
MAP_BACKENDS(B)
#undef B

/* Says why not. Return: @status. */
int map_refuse(struct map_reason *why, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
