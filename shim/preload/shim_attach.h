/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_ATTACH_H
#define GPUSHARE_SHIM_ATTACH_H
/* GPUSHARE_ATTACH: answers an allocation with a named buffer, once claim_take() has given it to a
 * rule. */
#include "shim_claim.h"
#include "shim_live.h"

/* Return true if the program's call is answered: with `*out_result`, and on CU_OK with
 * *out_memory, which is a pointer; for cuMemCreate it is a handle, and the program maps the memory
 * itself. Return false to allocate as usual: the buffer can't be attached (logged). */
bool attach_buffer(struct claim *claim, cu_deviceptr *out_memory, cu_result *out_result);

/* Wait for the GPU in the entry's context. cuMemFree and cuIpcCloseMemHandle wait for work that may
 * still use the memory; cuMemUnmap does not (measured). */
void attach_wait(const struct driver *driver, const struct live *entry);

/* Wait for the GPU if the unmapping call does not, unmap, and report the end of the attachment. */
cu_result attach_end(const struct driver *driver, const struct live *entry);

/* Unmap the memory, or release an object's handle (shim_live.h). GPU work on it must have ended. */
cu_result attach_close(const struct driver *driver, const struct live *entry);

#endif
