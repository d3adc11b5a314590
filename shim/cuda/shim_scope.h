/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_SCOPE_H
#define GPUSHARE_SHIM_SCOPE_H
/*
 * Driver calls of our own in somebody else's thread: whatever they need is as it was afterwards,
 * the current context, the capture mode and errno.
 */
#include <stdbool.h>

#include "driver.h"
#include "shim_quiet.h"

struct scope {
	const struct driver *driver;
	cu_capture_mode mode;
	bool exchanged, pushed;
	struct quiet quiet;
};

/*
 * Relaxed: a stream capture that is going on somewhere in the program neither forbids our calls nor
 * is invalidated by them. Source: cuThreadExchangeStreamCaptureMode.
 */
static inline struct scope scope_enter(const struct driver *driver)
{
	struct scope scope = {.driver = driver, .mode = CU_CAPTURE_RELAXED, .quiet = quiet_enter()};

	scope.exchanged = driver && driver->cuThreadExchangeStreamCaptureMode &&
			  driver->cuThreadExchangeStreamCaptureMode(&scope.mode) == CU_OK;
	return scope;
}

/* And in that context. False: it can't be made current, and nothing is changed. */
static inline bool scope_push(struct scope *scope, cu_context context)
{
	scope->pushed = scope->driver->cuCtxPushCurrent_v2 && scope->driver->cuCtxPopCurrent_v2 &&
			scope->driver->cuCtxPushCurrent_v2(context) == CU_OK;
	return scope->pushed;
}

static inline void scope_leave(struct scope *scope)
{
	cu_context left;

	if (scope->pushed)
		scope->driver->cuCtxPopCurrent_v2(&left);
	if (scope->exchanged)
		scope->driver->cuThreadExchangeStreamCaptureMode(&scope->mode);
	quiet_leave(&scope->quiet);
}

#define _scope_ __attribute__((cleanup(scope_leave)))

#endif
