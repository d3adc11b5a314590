/* SPDX-License-Identifier: MIT */
#include "staged.h"

#include <stdlib.h>
#include <string.h>

bool staged_begin(struct staged *staged, struct gpushare_session *session, size_t count)
{
	*staged = (struct staged){.session = session};
	staged->buffers = calloc(count + 1, sizeof(*staged->buffers));
	if (!staged->buffers)
		tool_error("no memory for %zu buffers", count);
	return staged->buffers != NULL;
}

bool staged_is_free(struct gpushare_session *session, const char *name)
{
	struct gpushare_info there;
	int status = gpushare_stat(session, name, &there);

	if (status == GPUSHARE_E_NOT_FOUND)
		return true;
	if (status)
		return !tool_failed(status);
	tool_error("a buffer '%s' exists already; 'gpushare rm %s' removes it", name, name);
	return false;
}

struct gpushare_buffer *staged_add(struct staged *staged, const struct copy_request *request,
				   const struct gpushare_info *like, const char *group)
{
	uint32_t unified = like->backing == GPUSHARE_BACKING_HOST ? GPUSHARE_FLAG_UNIFIED : 0;
	const struct gpushare_alloc_options options = {
	    .device = request->device,
	    .flags =
		GPUSHARE_FLAG_KEEP | GPUSHARE_FLAG_STAGED | unified |
		(request->readonly ? GPUSHARE_FLAG_READONLY : like->flags & GPUSHARE_FLAG_READONLY),
	    .ttl_s = like->ttl_s,
	    .mode = request->mode ? request->mode : like->mode,
	    .group = request->group || request->mode ? request->group : group,
	};
	struct staged_buffer *one = &staged->buffers[staged->made];
	int status =
	    gpushare_alloc_with(staged->session, like->name, like->size, &options, &one->buffer);

	if (status) {
		tool_failed(status);
		return NULL;
	}
	strcpy(one->name, like->name);
	staged->made++;
	return one->buffer;
}

void staged_drop(struct staged *staged)
{
	gpushare_free(staged->buffers[--staged->made].buffer);
}

bool staged_show(struct staged *staged)
{
	while (staged->seen < staged->made) {
		int status = gpushare_commit(staged->buffers[staged->seen].buffer);

		if (status)
			return !tool_failed(status);
		staged->seen++;
	}
	return true;
}

/* gpushare_free() removes buffers that are not committed. Committed ones stay as kept buffers, but
 * after a failure they are unlinked. */
bool staged_end(struct staged *staged, bool good)
{
	for (size_t i = 0; i < staged->made; i++) {
		int status = gpushare_free(staged->buffers[i].buffer);

		if (good && status)
			good = !tool_failed(status);
	}
	for (size_t i = 0; !good && i < staged->seen; i++)
		gpushare_unlink(staged->session, staged->buffers[i].name);
	free(staged->buffers);
	return good;
}
