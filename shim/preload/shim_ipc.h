/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_IPC_H
#define GPUSHARE_SHIM_IPC_H
/*
 * IPC handles for mapped memory, of which the driver makes none: 64 bytes that say which buffer is
 * meant. They are no secret: who opens one asks the registry for the buffer like any attacher.
 */
#include <stdbool.h>

#include "cuda/driver.h"
#include "shim_live.h"

/* `entry` has a name. */
void ipc_make(const struct live *entry, cu_ipc_mem_handle *out_handle);

/* Is it one of ours? A few instructions for all others. */
bool ipc_is_ours(const cu_ipc_mem_handle *handle);

/* In place of cuIpcOpenMemHandle and cuIpcCloseMemHandle, with their answers. The second is false
 * where `pointer` did not come from the first. */
cu_result ipc_open(const struct driver *driver, cu_deviceptr *out_pointer,
		   const cu_ipc_mem_handle *handle, unsigned int flags);
bool ipc_close(const struct driver *driver, cu_deviceptr pointer, cu_result *out_result);

#endif
