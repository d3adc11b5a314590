/* SPDX-License-Identifier: MIT */
/*
 * CPU mappings of buffers in this process: one view of each buffer, with a count of its users. A
 * map is a range of a view, which the caller reads and writes directly. The CPU copies a host_only
 * buffer through a view that stays open until its detach. Small copies use a view if the buffer has
 * one.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <utlist.h>

#include "api_session.h"
#include "api_used.h"
#include "base/cleanup.h"
#include "base/client_held.h"
#include "base/fork_check.h"
#include "core/copy/host_copy.h"
#include "core/map/map_backend.h"

#define CHUNK ((size_t)1 << 20) /* bytes per sink or source call; stays in the CPU's cache */

/* Up to these sizes the CPU copies faster than DMA, to and from the device; measured on an H200. */
#define CPU_TO_MAX ((size_t)256 << 10)
#define CPU_FROM_MAX ((size_t)4 << 10)

struct map_view {
	struct map_view *prev, *next;
	unsigned int users;
	struct map_memory memory;
	/* The buffer, by its name, generation and registry: two registries may use the same
	 * generation. */
	char name[GPUSHARE_NAME_MAX + 1];
	uint64_t generation;
	bool read_only;
	char directory[]; /* the registry's */
};

struct gpushare_map {
	struct map_view *view;
	uint64_t offset; /* in the view */
	size_t size;
};

/*
 * Two locks, so that counting a view up or down doesn't wait for a thread that starts Vulkan. A
 * forked child takes neither: the thread that held one may not exist there.
 */
static struct {
	pthread_mutex_t opening;
	pthread_mutex_t views_lock;
	struct map_view *views;
} maps = {.opening = PTHREAD_MUTEX_INITIALIZER, .views_lock = PTHREAD_MUTEX_INITIALIZER};

/* In the order in which they are tried. */
static const struct map_backend *const backends[] = {&map_dmabuf, &map_vulkan};

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

/* Whether the view is where a map of the buffer has to be: unified memory has one address, except
 * for a host_only buffer. */
static bool lies_well(const struct map_view *view, const struct gpushare_buffer *buffer)
{
	return buffer->info.backing != GPUSHARE_BACKING_HOST || buffer->host_only ||
	       buffer_base(buffer) == (uintptr_t)view->memory.address;
}

static bool is_of(const struct map_view *view, const struct gpushare_buffer *buffer)
{
	return view->generation == buffer->info.generation &&
	       view->read_only == buffer->read_only && lies_well(view, buffer) &&
	       !strcmp(view->name, buffer->info.name) &&
	       !strcmp(view->directory, buffer->session->client->directory);
}

/* The buffer's view if there is one, with one more user; else NULL. */
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

/* The driver can't export imported memory again (measured, driver 580: CUDA_ERROR_INVALID_VALUE),
 * so use the descriptor held for it (client_held.h). */
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

/* A forked child doesn't need the mapping, and would keep the GPU's memory allocated by it. If
 * madvise fails, the child does keep it. */
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
	const struct api_kept before = api_keep();
	int status = GPUSHARE_E_NOT_SUPPORTED;

	for (size_t i = 0; status && i < sizeof(backends) / sizeof(*backends); i++) {
		*out = (struct map_memory){.backend = backends[i], .size = source->size};
		status = backends[i]->open(source, out);
		if (!status)
			status = settle(source, out);
	}
	if (!status) {
		api_unkeep(&before);
		return GPUSHARE_OK;
	}
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
		source.pointer = buffer_base(buffer);
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
	uint64_t size = memory->size, offset = buffer->info.base_offset;
	uint64_t elsewhere = buffer->address > offset ? buffer->address - offset : 0;

	if (fd < 0)
		return api_fail(
		    GPUSHARE_E_NOT_SUPPORTED,
		    "'%s' can't be mapped for the CPU: this process has closed the file "
		    "descriptor that the library held for the memory",
		    buffer->info.name);
	memory->address = vmm_host_map_file(fd, size, elsewhere, buffer->read_only);
	if (!memory->address && elsewhere)
		memory->address = vmm_host_map_file(fd, size, 0, buffer->read_only);
	memory->owner = memory->address; /* host_close() unmaps it */
	if (memory->address)
		return GPUSHARE_OK;
	return api_fail(errno == ENOMEM ? GPUSHARE_E_NO_MEMORY : GPUSHARE_E_NOT_SUPPORTED,
			"'%s' can't be mapped for the CPU: mmap of its memory: %s",
			buffer->info.name, strerror(errno));
}

/* If used_take() fails, the preload made the memory for the program, which frees it. */
static int open_unified(const struct gpushare_buffer *buffer, struct map_memory *out_memory)
{
	struct used_object used;

	*out_memory = (struct map_memory){
	    .backend = &map_host,
	    .size = buffer->info.base_size,
	    .caching = GPUSHARE_CACHED,
	};
	if (buffer->host_only)
		return open_file(buffer, out_memory);
	out_memory->address = (void *)(uintptr_t)buffer_base(buffer);
	if (used_take(buffer_base(buffer), buffer->info.generation, &used))
		out_memory->handle = buffer_base(buffer);
	return GPUSHARE_OK;
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

/* Get the view of the buffer's whole allocation, and make it if there is none. map_view_close()
 * gives it back. Any status of gpushare_map(), with its sentence. The view doesn't need the buffer
 * afterwards. */
static int view_open(struct gpushare_buffer *buffer, struct map_view **out_view)
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

static int check(const struct gpushare_buffer *buffer, size_t offset, size_t length,
		 unsigned int access, struct gpushare_map *const *out_map)
{
	int status = API_NEED(transfer_check_access(buffer, offset, length, access), out_map);

	if (status)
		return status;
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
	status = view_open(buffer, &map->view);
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

static int copy_view(struct gpushare_buffer *buffer, struct map_view **out_view)
{
	struct gpushare_session *session = buffer->session;
	struct map_view *fresh, *view;
	bool late;
	int status;

	pthread_mutex_lock(&session->lock);
	view = buffer->view;
	pthread_mutex_unlock(&session->lock);
	if (!view) {
		status = view_open(buffer, &fresh);
		if (status)
			return status;
		pthread_mutex_lock(&session->lock);
		/* If another thread was first, view_open() has counted the same view twice. */
		late = buffer->view != NULL;
		if (!late)
			buffer->view = fresh;
		view = buffer->view;
		pthread_mutex_unlock(&session->lock);
		if (late)
			map_view_close(fresh);
	}
	*out_view = view;
	return GPUSHARE_OK;
}

/* Copy from offset `at` of the allocation to `to`; if `to` is NULL, from `from` to that offset. */
static void view_copy(const struct map_view *view, uint64_t at, void *to, const void *from,
		      size_t length)
{
	char *device = (char *)view->memory.address + at;

	if (to)
		host_copy_from(to, device, length);
	else
		host_copy_to(device, from, length);
}

int map_copy(struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
	     size_t length)
{
	struct map_view *view;
	int status = copy_view(buffer, &view);

	if (!status)
		view_copy(view, buffer->info.base_offset + offset, to, from, length);
	return status;
}

bool map_copy_small(const struct gpushare_buffer *buffer, size_t offset, void *to, const void *from,
		    size_t length)
{
	struct map_view *view;

	if (length > (to ? CPU_FROM_MAX : CPU_TO_MAX) ||
	    buffer->info.backing == GPUSHARE_BACKING_HOST)
		return false;
	view = fork_check_is_mine() ? seen(buffer) : NULL;
	if (!view)
		return false;
	view_copy(view, buffer->info.base_offset + offset, to, from, length);
	map_view_close(view);
	return true;
}

int map_stream(struct gpushare_buffer *buffer, size_t offset, size_t length,
	       int (*sink)(const void *data, size_t size, void *user),
	       int (*source)(void *data, size_t size, void *user), void *user)
{
	_cleanup_free_ char *chunk = malloc(length < CHUNK ? length : CHUNK);
	uint64_t at = buffer->info.base_offset + offset;
	struct map_view *view;
	int status = chunk ? copy_view(buffer, &view)
			   : api_fail(GPUSHARE_E_NO_MEMORY, "no memory for the copy buffer of '%s'",
				      buffer->info.name);

	if (status)
		return status;
	for (size_t done = 0, part; done < length; done += part) {
		part = length - done < CHUNK ? length - done : CHUNK;
		if (source && source(chunk, part, user))
			return transfer_cancelled(buffer, "writing", done, length);
		view_copy(view, at + done, sink ? chunk : NULL, chunk, part);
		if (sink && sink(chunk, part, user))
			return transfer_cancelled(buffer, "reading", done, length);
	}
	return GPUSHARE_OK;
}
