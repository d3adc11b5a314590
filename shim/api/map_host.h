/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_MAP_HOST_H
#define GPUSHARE_SHIM_MAP_HOST_H
/* CPU maps of unified buffers: the CPU can access their memory directly. */
#include "api_session.h"
#include "core/map/map_backend.h"

extern const struct map_backend map_host; /* its open() is map_host_open() */

/* Get where the buffer is mapped. For a host_only buffer, map its file: at the address that it has
 * in other processes, if that is free here. */
int map_host_open(const struct gpushare_buffer *buffer, struct map_memory *out_memory);
/* True if `memory` is where a map of the buffer has to be. For a host_only buffer, any address
 * is. */
bool map_host_fits(const struct gpushare_buffer *buffer, const struct map_memory *memory);

#endif
