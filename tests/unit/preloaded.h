/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_PRELOADED_H
#define GPUSHARE_TESTS_UNIT_PRELOADED_H
/* Parts of a stage that call what the shim does around a program's calls, without the preload. */
#include "preload/shim_buffers.h"
#include "stage.h"

#define MIB ((size_t)1 << 20)
#define BLOCK (2 * MIB)

/*
 * First in a part: GPUSHARE_NAME and GPUSHARE_ATTACH (NULL: none). Device 0's primary context is
 * current then, and the log is kept. Gives the driver as the program has it.
 */
const struct driver *preloaded(const char *names, const char *attaches);
/* The shim's own table, which a part may change: what the driver is not to have, or to fail at. */
struct driver *preloaded_table(void);

/* The log so far. Words that it must hold, and how many of its lines hold them. */
const char *preloaded_log(void);
unsigned int preloaded_logged(const char *words);
/* stderr goes nowhere from the first to the second, which gives what would have been there. */
void preloaded_hush(void);
const char *preloaded_hushed(void);

/* The program's allocations, as the hooks would pass them on, from this program; and its frees. */
cu_result preloaded_alloc(cu_deviceptr *out_pointer, size_t size);
cu_result preloaded_free(cu_deviceptr pointer);
/* The cuMemAlloc memory `size` bytes from `pointer` on can be written and read. */
bool preloaded_works(cu_deviceptr pointer, size_t size);

/* False: the registry has no such name. */
bool preloaded_finds(const char *name, struct gpushare_info *out_info);

#endif
