/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_SHARE_H
#define GPUSHARE_SHIM_API_SHARE_H
/* Memory and events of this process under a name. */
#include "api_session.h"

/* Check a caller's arguments. */
int share_check(const struct gpushare_session *session, const char *name, size_t size,
		struct gpushare_buffer *const *out_buffer);
/* Make a buffer of this process, after checking `mode` and `group` (may be NULL). The caller sets
 * device and context, `pointer`, `staged`, and size, flags and ttl_s in `info`. */
int share_new(struct gpushare_session *session, const char *name, enum buffer_kind kind,
	      uint32_t mode, const char *group, struct gpushare_buffer **out_buffer);
/* Export the memory at buffer->pointer: set buffer->handle, or *out_fd for cuMemCreate memory. Also
 * sets backing, device_uuid, base_offset and base_size in buffer->info. */
int share_export(struct gpushare_buffer *buffer, int *out_fd);
/* Share an exported buffer and add it to its session. `fd`: for a backing that has a descriptor. */
int share_enter(struct gpushare_buffer *buffer, int fd);

#endif
