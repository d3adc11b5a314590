/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_QUIET_H
#define GPUSHARE_SHIM_QUIET_H
/*
 * A scope for our waits and writes in a thread of the program: it restores errno at its end, and
 * disables cancellation meanwhile. A thread that is cancelled ends at a later cancellation point of
 * the program, after our locks are released.
 */
#include <errno.h>
#include <pthread.h>

struct quiet {
	int error, cancelling; /* errno and cancel state of the thread before */
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

/* `unused`: see base/cleanup.h */
#define _quiet_ __attribute__((cleanup(quiet_leave), unused))

#endif
