/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MAP_H
#define GPUSHARE_SHIM_MAP_H
/* What the CPU has mapped of GPUs' memory in this process: one view of each buffer, counted. */
#include "api_session.h"
#include "core/map/map_backend.h"

struct map_view {
	struct map_view *next;
	unsigned int users;
	struct map_memory memory;
	/* of which buffer: generations are a registry's */
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	bool read_only;
	char directory[];
};

/* The view of all of a buffer's allocation, made if need be; give it back with map_view_close().
 * Any status of gpushare_map(), said. It needs the buffer no more. */
int map_view_open(struct gpushare_buffer *buffer, bool coherent, struct map_view **out_view);
void map_view_close(struct map_view *view);
/* The same if there is one already; else NULL. */
struct map_view *map_view_seen(const struct gpushare_buffer *buffer);

/* Stores that were made reach the GPU, or what it wrote the CPU, from `offset` of the allocation. */
int map_view_flush(const struct map_view *view, uint64_t offset, uint64_t length);
int map_view_invalidate(const struct map_view *view, uint64_t offset, uint64_t length);

/* api_map_copy.c: one copy by the CPU, from `at` of the allocation. One of `to` and `from` says the
 * way: without `to` it is to the GPU. */
int map_view_copy(const struct map_view *view, uint64_t at, void *to, const void *from,
		  size_t length);
/* What api_transfer.c does for others, for a host_only buffer: checked already. One
 * of `to` and `from`, of `sink` and `source`. */
int map_copy(struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
	     size_t length);
int map_stream(struct gpushare_buffer *buffer, size_t offset, size_t length,
	       int (*sink)(const void *data, size_t size, void *user),
	       int (*source)(void *data, size_t size, void *user), void *user);

/* The same for a buffer that is mapped here. False if it is not, or if the GPU copies that much faster. */
bool map_copy_small(const struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
		    size_t length, int *out_status);

#endif
