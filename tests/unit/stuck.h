/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TESTS_UNIT_STUCK_H
#define GPUSHARE_TESTS_UNIT_STUCK_H
/*
 * Makes locks and allocations fail. Include it in one file of a program, before the .c file of
 * shim/ that the file tests. stuck_lock: lock_take() fails, as if the lock's owner never released
 * it (after a fork, a thread that the child doesn't have).
 */
#include <stdbool.h>
#include <stdlib.h>

#include "base/shim_lock.h"

static bool stuck_lock;
static unsigned int stuck_after = -1u; /* allocations that still succeed; -1u: all */

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
