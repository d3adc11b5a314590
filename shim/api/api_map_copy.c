/* SPDX-License-Identifier: MIT */
/* Copies by the CPU. A host_only buffer is copied through a view that stays open until its detach.
 * Small copies use a view if the buffer has one. */
#include "base/cleanup.h"
#include "core/copy/host_copy.h"
#include "map.h"

#define CHUNK ((size_t)1 << 20) /* bytes per sink or source call; stays in the CPU's cache */

/* Up to these sizes the CPU copies faster than DMA, to and from the device; measured on an H200. */
#define CPU_TO_MAX ((size_t)256 << 10)
#define CPU_FROM_MAX ((size_t)4 << 10)

static int copy_view(struct gpushare_buffer *buffer, struct map_view **out_view)
{
	struct gpushare_session *session = buffer->session;
	struct map_view *fresh, *view;
	bool late;
	int status;

	session_lock(session);
	view = buffer->view;
	pthread_mutex_unlock(&session->lock);
	if (!view) {
		status = map_view_open(buffer, &fresh);
		if (status)
			return status;
		session_lock(session);
		/* If another thread was first, map_view_open() has counted the same view twice. */
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
	view = map_view_seen(buffer);
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
			return api_fail(
			    GPUSHARE_E_CANCELLED,
			    "writing '%s' was ended by its callback after %zu of %zu bytes",
			    buffer->info.name, done, length);
		view_copy(view, at + done, sink ? chunk : NULL, chunk, part);
		if (sink && sink(chunk, part, user))
			return api_fail(
			    GPUSHARE_E_CANCELLED,
			    "reading '%s' was ended by its callback after %zu of %zu bytes",
			    buffer->info.name, done, length);
	}
	return GPUSHARE_OK;
}
