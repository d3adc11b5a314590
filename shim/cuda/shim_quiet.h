/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_QUIET_H
#define GPUSHARE_SHIM_QUIET_H
/*
 * Waits and writes of our own in somebody else's thread: errno is as it was afterwards, and a
 * thread that is cancelled meanwhile goes on to a place of the program's own, our locks released.
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
