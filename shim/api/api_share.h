/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_SHARE_H
#define GPUSHARE_SHIM_API_SHARE_H
/* Memory of this process that is about to be shared: its location, and its handle or descriptor. */
#include "api_session.h"

/* Everything about a piece of this process's memory that sharing needs to know. */
struct source {
	uint64_t pointer;
	size_t size;
	cu_deviceptr base;
	size_t base_size;
	int device;
	cu_context context;
	unsigned char uuid[GPUSHARE_UUID_SIZE];
	enum gpushare_backing backing;
	cu_ipc_mem_handle handle;   /* ipc */
	int fd;			    /* vmm, unified: source_finish() closes it; else -1 */
	struct vmm_mapping mapping; /* vmm or unified that we made; else its size is 0 */
	uint32_t flags, ttl_s;
	struct api_rights rights;
};

/* Find base, base_size and uuid from `pointer`, `size`, device and context; export the handle or
 * fd. */
int source_export(const struct driver *driver, struct source *source);
void source_finish(struct source *source);

/* share_check(), share_check_rights(): check a caller's arguments. share_source():
 * export a source with known device and context, and share it. share_enter(): share an exported
 * source. Both add a named buffer to the session. share_new(): the buffer alone, not shared; NULL
 * after api_fail(GPUSHARE_E_NO_MEMORY). */
struct gpushare_buffer *share_new(struct gpushare_session *session, const char *name,
				  enum buffer_kind kind, const struct source *source);
int share_check(const struct gpushare_session *session, const char *name, size_t size,
		struct gpushare_buffer *const *out_buffer);
int share_check_rights(const char *name, uint32_t mode, const char *group,
		       struct api_rights *out_rights);
int share_source(struct gpushare_session *session, const struct driver *driver, const char *name,
		 enum buffer_kind kind, struct source *source, struct gpushare_buffer **out_buffer);
int share_enter(struct gpushare_session *session, const char *name, enum buffer_kind kind,
		const struct source *source, struct gpushare_buffer **out_buffer);

#endif
