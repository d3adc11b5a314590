/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_APART_H
#define GPUSHARE_SHIM_APART_H
/*
 * A stream of our own in a context, which no work of the program's holds up. It stays: what is freed
 * by cuMemFreeAsync goes when its context is next synchronized, and never if its stream is destroyed
 * before (measured on driver 580: the memory is there until a cuMemFree or the context's end).
 */
#include <stdbool.h>

#include "driver.h"

/* cuMemFreeAsync in that stream of the current context, which is `context`: unlike cuMemFree it does
 * not wait. CU_NOT_SUPPORTED: the driver can't, or there are too many contexts. */
cu_result apart_free(const struct driver *driver, cu_context context, cu_deviceptr pointer);

/* The context is about to end, and its stream with it. */
void apart_forget(cu_context context);

#endif
