/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_IPC_H
#define GPUSHARE_SHIM_IPC_H
/* IPC handles for cuMemCreate memory, for which the driver makes none. The 64 bytes name the
 * buffer. They are no secret: a process that opens a handle asks the registry for the buffer, like
 * any attacher. */
#include <stdbool.h>

#include "cuda/driver.h"
#include "shim_live.h"

/* Make the handle of `entry`, which must have a name. */
void ipc_make(const struct live *entry, cu_ipc_mem_handle *out_handle);

/* Did the shim make this handle? Cheap: a magic number rules out other handles at once. */
bool ipc_is_ours(const cu_ipc_mem_handle *handle);

/* In place of cuIpcOpenMemHandle and cuIpcCloseMemHandle, with their results. ipc_close() returns
 * false if `pointer` is not from ipc_open(). */
cu_result ipc_open(const struct driver *driver, cu_deviceptr *out_pointer,
		   const cu_ipc_mem_handle *handle, unsigned int flags);
bool ipc_close(const struct driver *driver, cu_deviceptr pointer, cu_result *out_result);

#endif
