/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MAP_H
#define GPUSHARE_SHIM_MAP_H
/* CPU mappings of buffers in this process: one view of each buffer, with a count of its users. */
#include "api_session.h"
#include "core/map/map_backend.h"

struct map_view {
	struct map_view *prev, *next;
	unsigned int users;
	struct map_memory memory;
	/* Which buffer it is: another registry may use the same generation */
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	bool read_only;
	char directory[]; /* the registry's */
};

/* Get the view of the buffer's whole allocation, and make it if there is none. map_view_close()
 * gives it back. Any status of gpushare_map(), with its message. The view doesn't need the buffer
 * afterwards. */
int map_view_open(struct gpushare_buffer *buffer, struct map_view **out_view);
void map_view_close(struct map_view *view);
/* Get the view only if there is one; else NULL. map_view_close() gives it back. */
struct map_view *map_view_seen(const struct gpushare_buffer *buffer);

/* api_map_copy.c: the copies of api_transfer.c for a host_only buffer, with checked arguments. One
 * of `to` and `from`, and one of `sink` and `source`, is set. */
int map_copy(struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
	     size_t length);
int map_stream(struct gpushare_buffer *buffer, size_t offset, size_t length,
	       int (*sink)(const void *data, size_t size, void *user),
	       int (*source)(void *data, size_t size, void *user), void *user);

/* Copy by the CPU if the buffer is mapped in this process. False, without a copy: it is not mapped,
 * is unified, or the GPU copies that length faster. */
bool map_copy_small(const struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
		    size_t length);

#endif
