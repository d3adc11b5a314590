/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_DESCRIBE_H
#define GPUSHARE_SHIM_DESCRIBE_H
/* Describes memory as the registry records it, with the handle or file descriptor to send. */
#include "cuda/driver.h"
#include "shim_link.h"
#include "shim_live.h"

struct description {
	struct memory what; /* except name and mode */
	int fd; /* of mapped memory, the caller closes it; -1: the handle is entry->handle */
	const char *call; /* the call that failed with `result` */
	cu_result result;
};

/* Describe memory of this process. Its context must be current; entry->context is set if it is
 * NULL. Return false if the driver refuses. */
bool describe_own(const struct driver *driver, struct live *entry, struct description *out);
/* Describe an attached buffer for a registry that lost it. Mapped memory only. */
bool describe_attached(const struct driver *driver, const struct live *entry,
		       struct description *out);
/* Copy the rights from the record for a later resync, unless a rule has given them. */
void describe_rights(struct live *entry, const record *found);
/* Note in `entry` what describe_attached() needs of the record. */
void describe_note(struct live *entry, const record *found);

/* Get the UUID by which a record names the GPU. */
cu_result describe_device(const struct driver *driver, cu_device device,
			  uint8_t out_uuid[GPUSHARE_UUID_SIZE]);

#endif
