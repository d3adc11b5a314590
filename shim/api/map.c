/* SPDX-License-Identifier: MIT */
#include "map.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "base/cleanup.h"
#include "base/client_held.h"
#include "base/fork_check.h"
#include "api_unified.h"
#include "cuda/vmm_host.h"

/*
 * Two locks, so that counting a view up or down doesn't wait for a thread that starts Vulkan. A
 * forked child takes neither: the thread that held one may not exist there.
 */
static struct {
	pthread_mutex_t opening;
	pthread_mutex_t views_lock;
	struct map_view *views;
} maps = {.opening = PTHREAD_MUTEX_INITIALIZER, .views_lock = PTHREAD_MUTEX_INITIALIZER};

static const struct map_backend *const backends[] = {
#define B(name) &map_##name,
    MAP_BACKENDS(B)
#undef B
};

static int claim(const char *name)
{
	int whose;

	if (fork_check_claim(&whose))
		return GPUSHARE_OK;
	return api_fail(
	    GPUSHARE_E_FORKED,
	    "'%s' can't be mapped in this process: it was forked from process %d, which has "
	    "mapped buffers, and Vulkan does not work after fork(); exec() a program",
	    name, whose);
}

static uint64_t base_of(const struct gpushare_buffer *buffer)
{
	return buffer->pointer - buffer->info.base_offset;
}

/* Whether the view is where a map of the buffer has to be: unified memory has one address, except
 * for a host_only buffer. */
static bool lies_well(const struct map_view *view, const struct gpushare_buffer *buffer)
{
	return buffer->info.backing != GPUSHARE_BACKING_HOST || buffer->host_only ||
	       base_of(buffer) == (uintptr_t)view->memory.address;
}

static bool is_of(const struct map_view *view, const struct gpushare_buffer *buffer)
{
	return view->generation == buffer->info.generation &&
	       view->read_only == buffer->read_only && lies_well(view, buffer) &&
	       !strcmp(view->name, buffer->info.name) &&
	       !strcmp(view->directory, buffer->session->client->directory);
}

static struct map_view *seen(const struct gpushare_buffer *buffer)
{
	struct map_view *view;

	pthread_mutex_lock(&maps.views_lock);
	LL_FOREACH (maps.views, view) {
		if (is_of(view, buffer))
			break;
	}
	if (view)
		view->users++;
	pthread_mutex_unlock(&maps.views_lock);
	return view;
}

struct map_view *map_view_seen(const struct gpushare_buffer *buffer)
{
	return fork_check_is_mine() ? seen(buffer) : NULL;
}

/* The driver can't export imported memory again (measured, driver 580: CUDA_ERROR_INVALID_VALUE),
 * so its held descriptor is used. */
static int descriptor_held(const struct gpushare_buffer *buffer, int *out_fd)
{
	*out_fd = held_open(buffer->mapping.held);
	if (*out_fd >= 0)
		return GPUSHARE_OK;
	return api_fail(GPUSHARE_E_LIMIT,
			"'%s' can't be mapped: no file descriptor is left (see 'ulimit -n'), or "
			"the program has closed the buffer's; then attach it again",
			buffer->info.name);
}

static int descriptor(const struct gpushare_buffer *buffer, int *out_fd)
{
	const struct driver *driver = buffer->session->driver;
	cu_result result;
	bool mapped;

	if (buffer->mapping.held || buffer->adopted || buffer_is_attached(buffer))
		return descriptor_held(buffer, out_fd);
	result = vmm_export_at(driver, buffer->pointer, out_fd, &mapped);
	if (result != CU_OK)
		return api_fail_cuda(driver, result,
				     mapped ? "cuMemExportToShareableHandle"
					    : "cuMemRetainAllocationHandle",
				     "'%s' can't be mapped", buffer->info.name);
	return GPUSHARE_OK;
}

/* A forked child doesn't need the mapping, and would hold the GPU's memory by it. If madvise fails,
 * the child does hold it. */
static int settle(const struct map_source *source, const struct map_memory *memory)
{
	madvise(memory->address, memory->size, MADV_DONTFORK);
	if (!source->read_only || !mprotect(memory->address, memory->size, PROT_READ))
		return GPUSHARE_OK;
	memory->backend->close(memory);
	return api_fail(GPUSHARE_E_NOT_SUPPORTED,
			"it is read-only here, and its mapping can't be made read-only");
}

/* If one backend succeeds, discard the error sentences of those that failed before. */
static int open_memory(const struct map_source *source, const char *name, struct map_memory *out)
{
	char before[API_SENTENCE_MAX];
	int status = GPUSHARE_E_NOT_SUPPORTED;

	snprintf(before, sizeof(before), "%s", gpushare_explain());
	for (size_t i = 0; status && i < sizeof(backends) / sizeof(*backends); i++) {
		*out = (struct map_memory){.backend = backends[i], .size = source->size};
		status = backends[i]->open(source, out);
		if (!status)
			status = settle(source, out);
	}
	if (!status)
		return api_fail(GPUSHARE_OK, "%s", before);
	return api_fail(
	    status,
	    "'%s' can't be mapped for the CPU: %s; if CUDA works, use gpushare_mirror_open()", name,
	    gpushare_explain());
}

static int open_device(const struct gpushare_buffer *buffer, struct map_memory *out)
{
	_cleanup_close_ int fd = -1;
	struct map_source source = {
	    .device_uuid = buffer->info.device_uuid,
	    .size = buffer->info.base_size,
	    .read_only = buffer->read_only,
	};
	int status = descriptor(buffer, &fd);

	if (status)
		return status;
	source.fd = fd;
	if (!buffer->host_only && !buffer->away) {
		source.driver = buffer->session->driver;
		source.context = buffer->context;
		source.device = buffer->device;
		source.pointer = buffer->pointer - buffer->info.base_offset;
	}
	return open_memory(&source, buffer->info.name, out);
}

static void host_close(const struct map_memory *memory)
{
	if (memory->handle)
		unified_drop(memory->handle);
	else if (memory->owner)
		munmap(memory->address, memory->size);
}

static const struct map_backend map_host = {
    .name = "host",
    .close = host_close,
};

/* Map a host_only buffer's file: at the address that it has in other processes, if that is free. */
static int open_file(const struct gpushare_buffer *buffer, struct map_memory *memory)
{
	_cleanup_close_ int fd = held_open(buffer->mapping.held);
	uint64_t size = memory->size;

	if (fd < 0)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"this process has closed the file descriptor that the library held "
				"for the memory");
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
static int open_host(const struct gpushare_buffer *buffer, struct map_memory *out_memory)
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

static int open_unified(const struct gpushare_buffer *buffer, struct map_memory *out)
{
	int status = open_host(buffer, out);

	return status ? api_fail(status, "'%s' can't be mapped for the CPU: %s", buffer->info.name,
				 gpushare_explain())
		      : status;
}

static int open_view(struct gpushare_buffer *buffer, struct map_view **out_view)
{
	const char *directory = buffer->session->client->directory;
	size_t length = strlen(directory) + 1;
	_cleanup_free_ struct map_view *view = calloc(1, sizeof(*view) + length);
	int status;

	if (!view)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to map '%s'", buffer->info.name);
	status = buffer->info.backing == GPUSHARE_BACKING_HOST ? open_unified(buffer, &view->memory)
							       : open_device(buffer, &view->memory);
	if (status)
		return status;
	view->users = 1;
	view->generation = buffer->info.generation;
	view->read_only = buffer->read_only;
	memcpy(view->name, buffer->info.name, sizeof(view->name));
	memcpy(view->directory, directory, length);
	pthread_mutex_lock(&maps.views_lock);
	DL_PREPEND(maps.views, view);
	pthread_mutex_unlock(&maps.views_lock);
	*out_view = view;
	view = NULL;
	return GPUSHARE_OK;
}

int map_view_open(struct gpushare_buffer *buffer, struct map_view **out_view)
{
	struct map_view *view;
	int status = claim(buffer->info.name);

	if (status)
		return status;
	view = seen(buffer);
	if (!view) {
		pthread_mutex_lock(&maps.opening);
		view = seen(buffer);
		if (!view)
			status = open_view(buffer, &view);
		pthread_mutex_unlock(&maps.opening);
	}
	if (!status)
		*out_view = view;
	return status;
}

void map_view_close(struct map_view *view)
{
	bool last;

	pthread_mutex_lock(&maps.views_lock);
	last = --view->users == 0;
	if (last)
		DL_DELETE(maps.views, view);
	pthread_mutex_unlock(&maps.views_lock);
	if (!last)
		return;
	view->memory.backend->close(&view->memory);
	free(view);
}
