/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_QUIET_H
#define GPUSHARE_SHIM_QUIET_H
/*
 * Our waits and writes in a thread of the program: errno is restored afterwards. A thread that is
 * cancelled meanwhile ends later, at a cancellation point of the program, after our locks are
 * released.
 */
#include <errno.h>
#include <pthread.h>

struct quiet {
	int error, cancelling;
};

static inline struct quiet quiet_enter(void)
{
	struct quiet quiet = {.error = errno};

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &quiet.cancelling);
	return quiet;
}

static inline void quiet_leave(const struct quiet *quiet)
{
	pthread_setcancelstate(quiet->cancelling, NULL);
	errno = quiet->error;
}

#define _quiet_ __attribute__((cleanup(quiet_leave)))

#endif
