/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_SOURCE_H
#define GPUSHARE_SHIM_API_SOURCE_H
/* Memory of this process that is about to be shared: where it lies, and how it travels. */
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
	cu_ipc_mem_handle handle; /* ipc */
	int fd;			  /* vmm: source_finish() closes it; else -1 */
};

/* Memory that came from another process has its name already, there: E_NOT_SHAREABLE. */
int source_check_foreign(struct gpushare_session *session, uint64_t pointer);
/* From `pointer`: device and context. */
int source_locate(struct gpushare_session *session, const struct driver *driver,
		  struct source *source);
/* From `pointer`, `size`, device and context: all the rest. */
int source_export(const struct driver *driver, struct source *source);
void source_finish(struct source *source);

#endif
