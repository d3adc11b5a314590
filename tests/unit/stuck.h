/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_STUCK_H
#define GPUSHARE_TESTS_UNIT_STUCK_H
/*
 * For the one file of a program that includes a .c of shim/ behind this: its locks can be those of
 * somebody who does not give them back (a thread that is not in the forked child), and it can be out
 * of memory.
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/shim_lock.h"

static bool stuck_lock;
static unsigned int stuck_after = -1u; /* so many allocations are had before */

static inline bool stuck_take(pthread_mutex_t *lock)
{
	return !stuck_lock && lock_take(lock);
}
#define lock_take stuck_take

static inline bool stuck_is_short(void)
{
	if (!stuck_after)
		return true;
	stuck_after -= stuck_after != -1u;
	return false;
}

static inline void *stuck_malloc(size_t size)
{
	return stuck_is_short() ? NULL : malloc(size);
}

static inline void *stuck_calloc(size_t count, size_t size)
{
	return stuck_is_short() ? NULL : calloc(count, size);
}
#define malloc stuck_malloc
#define calloc stuck_calloc

#endif
