/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_DESCRIBE_H
#define GPUSHARE_SHIM_DESCRIBE_H
/* Fills in the description of memory that the registry records, and the handle or file descriptor
 * to send with it. */
#include "cuda/driver.h"
#include "shim_link.h"
#include "shim_live.h"

/* Describe the memory of `entry` for a share. If it is own memory, its context must be current. An
 * attached buffer is described for a registry that has lost it, but only if it is mapped memory
 * with `keep`; otherwise the call fails and sets *out_call to NULL. If a driver call fails,
 * *out_call is that call's name. The caller closes out->fd. */
cu_result describe_memory(const struct driver *driver, struct live *entry, struct memory *out,
			  const char **out_call);
/* Copy mode and group from the record, for a later resync, unless the rule has given them. */
void describe_rights(struct live *entry, const record *found);
/* Copy into `entry` what the registry's answer says of an attached buffer. */
void describe_found(struct live *entry, const struct link_found *found);

/* Get the UUID by which a record names the GPU. */
cu_result describe_device(const struct driver *driver, cu_device device,
			  uint8_t out_uuid[GPUSHARE_UUID_SIZE]);

#endif
