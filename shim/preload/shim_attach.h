/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_ATTACH_H
#define GPUSHARE_SHIM_ATTACH_H
/* GPUSHARE_ATTACH: answers an allocation with the buffer of the rule that takes it
 * (claim_take()). */
#include "shim_claim.h"
#include "shim_live.h"

/* Return true if the program's call is answered: *out_result is its result. On CU_OK, *out_memory
 * is a pointer; for cuMemCreate it is a handle, and the program maps the memory itself. Return
 * false if the buffer can't be attached (logged): the caller then allocates as usual. */
bool attach_buffer(struct claim *claim, cu_deviceptr *out_memory, cu_result *out_result);

/* Wait for the GPU in the entry's context. cuMemFree and cuIpcCloseMemHandle wait for work that may
 * still use the memory; cuMemUnmap does not (measured). */
void attach_wait(const struct driver *driver, const struct live *entry);

/* Wait for the GPU unless the unmapping call does, unmap, and tell the registry that the attachment
 * has ended. */
cu_result attach_end(const struct driver *driver, const struct live *entry);

/* Unmap the memory, or release an object's handle (shim_live.h). GPU work on it must have ended. */
cu_result attach_close(const struct driver *driver, const struct live *entry);

#endif
