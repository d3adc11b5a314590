/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_STAGED_H
#define GPUSHARE_TOOLS_STAGED_H
/* Kept buffers that are made together: no other process sees one before all of them are complete.
 * The functions below report errors. */
#include "copy.h"

struct staged_buffer {
	struct gpushare_buffer *buffer;
	char name[GPUSHARE_NAME_MAX + 1];
};

struct staged {
	struct gpushare_session *session;
	struct staged_buffer *buffers;
	size_t made, seen; /* how many of `buffers` are allocated, and committed */
};

/* Make room for `count` buffers. Call staged_end() even if this fails. */
bool staged_begin(struct staged *staged, struct gpushare_session *session, size_t count);
/* Whether the name is free. If not, reports that: the user has to remove that buffer first. */
bool staged_is_free(struct gpushare_session *session, const char *name);
/* Allocate a buffer with the name, size, kind and permissions of `like`; options of the request
 * take precedence. `group`: name or number; NULL or "": the caller's. It is used only if the
 * request has neither group nor mode. Returns NULL on failure. */
struct gpushare_buffer *staged_add(struct staged *staged, const struct copy_request *request,
				   const struct gpushare_info *like, const char *group);
/* Free the buffer that was added last. */
void staged_drop(struct staged *staged);
/* Make the names visible, after all buffers were filled. */
bool staged_show(struct staged *staged);
/* If `good`, leave the buffers to the registry; if not, remove them. Returns false if `good` is
 * false or an error occurs. */
bool staged_end(struct staged *staged, bool good);

#endif
