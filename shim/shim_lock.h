/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_LOCK_H
#define GPUSHARE_SHIM_LOCK_H
/* Locks that are given up on: in a forked child the holder may not exist. */
#include <pthread.h>
#include <stdbool.h>

#include "monotonic.h"

static inline bool lock_take_within(pthread_mutex_t *lock, unsigned int ms)
{
	struct timespec until;

	if (!pthread_mutex_trylock(lock))
		return true;
	until = monotonic_in_ms(ms);
	return !pthread_mutex_clocklock(lock, CLOCK_MONOTONIC, &until);
}

/* For what is held for a few instructions only, never over a call that may wait. */
static inline bool lock_take(pthread_mutex_t *lock)
{
	return lock_take_within(lock, 1000);
}

#endif
