/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_ATTACH_H
#define GPUSHARE_SHIM_ATTACH_H
/* GPUSHARE_ATTACH: an allocation that a rule takes is answered with a named buffer. */
#include "shim_claim.h"
#include "shim_live.h"

/*
 * True: the program gets `*out_result`, and on CU_OK `*out_pointer` with `size` bytes or more.
 * False: go on as usual, no rule took it, or what it names can't be had (logged).
 */
bool attach_pointer(struct claim *claim, size_t size, cu_deviceptr *out_pointer,
		    cu_result *out_result);

/* The same for a program that wants a handle to map by itself: out_object->mapping.handle. */
bool attach_object(struct claim *claim, size_t size, struct live *out_object,
		   cu_result *out_result);

/* Wait for the GPU, in the entry's context: cuMemFree waits for the work that may still use the
 * memory, and so does cuIpcCloseMemHandle; cuMemUnmap does not (measured). */
void attach_wait(const struct driver *driver, const struct live *entry);

/* Wait where that is ours to do, unmap, and give the attachment back. */
cu_result attach_end(const struct driver *driver, const struct live *entry);

/* Unmap. Work on it must have ended. */
cu_result attach_close(const struct driver *driver, const struct live *entry);

#endif
