/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_CLEANUP_H
#define GPUSHARE_SHIM_CLEANUP_H
/* The one place for GNU cleanup: a resource that leaves its scope is released. */
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free(void *pointer)
{
	free(*(void **)pointer);
}

static inline void cleanup_close(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

#define _cleanup_free_ __attribute__((cleanup(cleanup_free)))
/* `unused`: often only the cleanup reads the variable, which some tools don't count as a use. */
#define _cleanup_close_ __attribute__((cleanup(cleanup_close), unused))

#endif
