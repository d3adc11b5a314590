/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_DESCRIBE_H
#define GPUSHARE_SHIM_DESCRIBE_H
/* Memory in the registry's words, and how it travels. */
#include "cuda/driver.h"
#include "shim_link.h"
#include "shim_live.h"

struct description {
	struct memory what; /* but for name and mode */
	int fd; /* mapped memory: the caller closes it; else -1, and the handle is entry->handle */
	const char *call; /* that failed, with `result` */
	cu_result result;
};

/* Memory of this process's own. Its context is current, and noted where the entry has none. False:
 * the driver refuses. */
bool describe_own(const struct driver *driver, struct live *entry, struct description *out);
/* What is attached, for a registry that lost it: mapped memory only. */
bool describe_attached(const struct driver *driver, const struct live *entry,
		       struct description *out);
/* Rights that no rule asks for are those of the record, should that have to be told. */
void describe_rights(struct live *entry, const record *found);
/* Note down what describe_attached() will say. */
void describe_note(struct live *entry, const record *found);

/* The record's part that says which GPU. */
cu_result describe_device(const struct driver *driver, cu_device device,
			  uint8_t out_uuid[GPUSHARE_UUID_SIZE]);

#endif
