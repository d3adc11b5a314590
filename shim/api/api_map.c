/* SPDX-License-Identifier: MIT */
/* Maps: a range of a buffer's CPU mapping (map.h) that the caller reads and writes directly. */
#include <stdatomic.h>

#include "base/cleanup.h"
#include "base/fork_check.h"
#include "core/copy/host_copy.h"
#include "map.h"

struct gpushare_map {
	struct map_view *view;
	uint64_t offset; /* in the view */
	size_t size;
};

static int check(const struct gpushare_buffer *buffer, size_t offset, size_t length,
		 unsigned int access, struct gpushare_map *const *out_map)
{
	int status = transfer_check_access(buffer, offset, length, access);

	if (status)
		return status;
	if (!out_map)
		return api_fail(GPUSHARE_E_INVALID, "out_map is NULL");
	if (!length)
		return api_fail(GPUSHARE_E_INVALID,
				"0 bytes of '%s' can't be mapped; 1 or more can",
				buffer->info.name);
	if (!backing_is_fd(buffer->info.backing))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' is cudaMalloc memory, which the CPU can't map: allocate it "
				"by a rule with "
				"'map' or with GPUSHARE_FLAG_VMM, or use gpushare_mirror_open()",
				buffer->info.name);
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_map_with(struct gpushare_buffer *buffer, size_t offset, size_t length,
				 unsigned int access, const struct gpushare_map_options *options,
				 struct gpushare_map **out_map)
{
	API_CALL;
	_cleanup_free_ struct gpushare_map *map = NULL;
	int status = check(buffer, offset, length, access, out_map);

	(void)options; /* every map is coherent */
	if (status)
		return status;
	map = calloc(1, sizeof(*map));
	if (!map)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to map '%s'", buffer->info.name);
	status = map_view_open(buffer, &map->view);
	if (status)
		return status;
	map->offset = buffer->info.base_offset + offset;
	map->size = length;
	*out_map = map;
	map = NULL;
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_map(struct gpushare_buffer *buffer, size_t offset, size_t length,
			    unsigned int access, struct gpushare_map **out_map)
{
	API_CALL;
	return gpushare_map_with(buffer, offset, length, access, NULL, out_map);
}

API_PUBLIC void *gpushare_map_data(const struct gpushare_map *map)
{
	if (!map || !fork_check_is_mine())
		return NULL;
	return (char *)map->view->memory.address + map->offset;
}

API_PUBLIC size_t gpushare_map_size(const struct gpushare_map *map)
{
	return map ? map->size : 0;
}

API_PUBLIC int gpushare_map_info(const struct gpushare_map *map, struct gpushare_map_info *out_info)
{
	API_CALL;
	if (!map || !out_info)
		return api_fail(GPUSHARE_E_INVALID, "%s is NULL", map ? "out_info" : "the map");
	*out_info = (struct gpushare_map_info){
	    .backend = map->view->memory.backend->name,
	    .caching = map->view->memory.caching,
	    .coherent = 1,
	    .atom_size = 1,
	};
	return GPUSHARE_OK;
}

static int check_part(const struct gpushare_map *map, size_t offset, size_t length)
{
	if (!map)
		return api_fail(GPUSHARE_E_INVALID, "the map is NULL; get one from gpushare_map()");
	if (!fork_check_is_mine())
		return api_fail(GPUSHARE_E_FORKED,
				"the map of '%s' belongs to the parent process; it does not exist "
				"in this forked child",
				map->view->name);
	if (span_fits(offset, length, map->size))
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_RANGE,
			"%zu bytes from offset %zu run past the end of the map of '%s', which has "
			"%zu bytes",
			length, offset, map->view->name, map->size);
}

API_PUBLIC int gpushare_map_flush(struct gpushare_map *map, size_t offset, size_t length)
{
	API_CALL;
	int status = check_part(map, offset, length);

	host_copy_fence_stores();
	return status;
}

API_PUBLIC int gpushare_map_invalidate(struct gpushare_map *map, size_t offset, size_t length)
{
	API_CALL;
	int status = check_part(map, offset, length);

	atomic_thread_fence(memory_order_acquire);
	return status;
}

API_PUBLIC int gpushare_unmap(struct gpushare_map *map)
{
	API_CALL;
	int status;

	if (!map)
		return GPUSHARE_OK;
	status = check_part(map, 0, 0);
	if (status)
		return status;
	map_view_close(map->view);
	free(map);
	return GPUSHARE_OK;
}
