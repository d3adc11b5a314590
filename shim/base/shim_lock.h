/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LOCK_H
#define GPUSHARE_SHIM_LOCK_H
/* Takes locks with a time limit: a forked child may lack the thread that holds the lock. */
#include <pthread.h>
#include <stdbool.h>

#include "monotonic.h"

static inline bool lock_take_within(pthread_mutex_t *lock, unsigned int ms)
{
	struct timespec until;

	if (!pthread_mutex_trylock(lock))
		return true;
#ifdef __SANITIZE_THREAD__
	/* gcc 12's thread sanitizer doesn't know pthread_mutex_clocklock(), and reports races on
	 * the data that such a lock guards. */
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += ms / 1000 + 1;
	return !pthread_mutex_timedlock(lock, &until);
#else
	until = monotonic_in_ms(ms);
	return !pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until);
#endif
}

/* For locks that are held for a few instructions only, never over a call that may wait. */
static inline bool lock_take(pthread_mutex_t *lock)
{
	return lock_take_within(lock, 1000);
}

#endif
