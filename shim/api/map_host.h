/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MAP_HOST_H
#define GPUSHARE_SHIM_MAP_HOST_H
/* Maps of unified buffers: the memory is the CPU's as it is. */
#include "api_session.h"
#include "core/map/map_backend.h"

extern const struct map_backend map_host; /* its open() is map_host_open() */

/* Where the buffer is mapped, or, of a host_only one, the file that it may be: at the address that
 * it has elsewhere, if that is free. */
int map_host_open(const struct gpushare_buffer *buffer, struct map_memory *out_memory,
		  struct map_reason *why);
/* Is that where a map of the buffer has to be? Of a host_only one anywhere will do. */
bool map_host_fits(const struct gpushare_buffer *buffer, const struct map_memory *memory);

#endif
