/* SPDX-License-Identifier: MIT */
#include "map_host.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "api_unified.h"
#include "base/cleanup.h"
#include "base/client_held.h"
#include "cuda/vmm_host.h"

static uint64_t base_of(const struct gpushare_buffer *buffer)
{
	return buffer->pointer - buffer->info.base_offset;
}

static int open_file(const struct gpushare_buffer *buffer, struct map_memory *memory)
{
	_cleanup_close_ int fd = held_open(buffer->mapping.held);
	uint64_t size = memory->size;

	if (fd < 0)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"the program closed the file descriptor of its memory");
	memory->address = vmm_host_map_file(fd, size, buffer->elsewhere, buffer->read_only);
	if (!memory->address && buffer->elsewhere)
		memory->address = vmm_host_map_file(fd, size, 0, buffer->read_only);
	memory->owner = memory->address; /* host_close() unmaps it */
	if (memory->address)
		return GPUSHARE_OK;
	return api_fail(errno == ENOMEM ? GPUSHARE_E_NO_MEMORY : GPUSHARE_E_NOT_SUPPORTED,
			"mmap of its memory: %s", strerror(errno));
}

/* If unified_use() fails, a preloaded library mapped the memory for the program, which frees it. */
int map_host_open(const struct gpushare_buffer *buffer, struct map_memory *out_memory)
{
	struct vmm_mapping used;

	*out_memory = (struct map_memory){
	    .backend = &map_host,
	    .size = buffer->info.base_size,
	    .caching = GPUSHARE_CACHED,
	};
	if (buffer->host_only)
		return open_file(buffer, out_memory);
	out_memory->address = (void *)(uintptr_t)base_of(buffer);
	if (unified_use(base_of(buffer), buffer->info.generation, &used))
		out_memory->handle = base_of(buffer);
	return GPUSHARE_OK;
}

bool map_host_fits(const struct gpushare_buffer *buffer, const struct map_memory *memory)
{
	return buffer->host_only || base_of(buffer) == (uintptr_t)memory->address;
}

static void host_close(const struct map_memory *memory)
{
	if (memory->handle)
		unified_drop(memory->handle);
	else if (memory->owner)
		munmap(memory->address, memory->size);
}

const struct map_backend map_host = {
    .name = "host",
    .close = host_close,
};
