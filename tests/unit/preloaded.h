/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_PRELOADED_H
#define GPUSHARE_TESTS_UNIT_PRELOADED_H
/* For parts of a stage that call the shim's functions directly, without LD_PRELOAD. */
#include "preload/shim_buffers.h"
#include "stage.h"

#define MIB ((size_t)1 << 20)
#define BLOCK (2 * MIB)

/*
 * Call it first in a part. Set GPUSHARE_NAME and GPUSHARE_ATTACH (NULL: unset) and GPUSHARE_LOG,
 * make device 0's primary context current, and return the driver table as the program sees it.
 */
const struct driver *preloaded(const char *names, const char *attaches);
/* The shim's own driver table. A part may remove or replace calls in it. */
struct driver *preloaded_table(void);

/* The log so far; the number of its lines that contain `words`. */
const char *preloaded_log(void);
unsigned int preloaded_logged(const char *words);
/* Capture stderr. Restore it and return the captured text. */
void preloaded_hush(void);
const char *preloaded_hushed(void);

/* Allocate and free memory as the hooks of cuMemAlloc and cuMemFree do for a program. */
cu_result preloaded_alloc(cu_deviceptr *out_pointer, size_t size);
cu_result preloaded_free(cu_deviceptr pointer);
/* Can the `size` bytes at `pointer` be written and read? */
bool preloaded_works(cu_deviceptr pointer, size_t size);

/* False: the registry has no such name. */
bool preloaded_finds(const char *name, struct gpushare_info *out_info);

#endif
