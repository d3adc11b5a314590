/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LOCK_H
#define GPUSHARE_SHIM_LOCK_H
/* Locks that are held for a few instructions only, never over a call that may wait. */
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* False after a second: in a child that was forked while another thread held it, it never comes. */
static inline bool lock_take(pthread_mutex_t *lock)
{
	struct timespec until;

	if (!pthread_mutex_trylock(lock))
		return true;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	return !pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until);
}

#endif
