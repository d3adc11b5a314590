/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_SCOPE_H
#define GPUSHARE_SHIM_SCOPE_H
/*
 * A scope for our driver calls in a thread of the program: at its end, the current context, the
 * capture mode and errno are as before.
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
 * The thread's capture mode becomes relaxed: a stream capture in progress anywhere in the program
 * neither forbids our calls nor is invalidated by them. Source: cuThreadExchangeStreamCaptureMode.
 */
static inline struct scope scope_enter(const struct driver *driver)
{
	struct scope scope = {.driver = driver, .mode = CU_CAPTURE_RELAXED, .quiet = quiet_enter()};

	scope.exchanged = driver->cuThreadExchangeStreamCaptureMode(&scope.mode) == CU_OK;
	return scope;
}

/* Also makes `context` current. False: that failed, and nothing is changed. */
static inline bool scope_push(struct scope *scope, cu_context context)
{
	scope->pushed = scope->driver->cuCtxPushCurrent_v2(context) == CU_OK;
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

#define _scope_ __attribute__((cleanup(scope_leave), unused))

#endif
