/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_STATUS_H
#define GPUSHARE_SHIM_API_STATUS_H
/* How the API fails: a status, and a sentence for gpushare_explain(). */
#include <pthread.h>

#include "gpushare.h"
#include "cuda/driver.h"

#define API_SENTENCE_MAX 512 /* bytes, NUL included */
#define API_PUBLIC __attribute__((visibility("default")))

/* Milliseconds that this thread has waited for the registry, or for another thread that asks it. The
 * call's time limit is for those after api_excused_ms: the registry has answered since then. */
extern _Thread_local int64_t api_waited_ms, api_excused_ms;

static inline void api_excuse(int64_t waited_ms)
{
	if (api_excused_ms < waited_ms)
		api_excused_ms = waited_ms;
}

static inline int api_enter(void)
{
	int cancelling;

	api_excuse(api_waited_ms);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
	return cancelling;
}

static inline void api_leave(const int *cancelling)
{
	pthread_setcancelstate(*cancelling, NULL);
}

/*
 * The first line of each public call that takes a lock, asks the registry or calls the driver. If
 * the thread is cancelled during the call, when it may hold locks, it ends at the next cancellation
 * point after the call.
 */
#define API_CALL int api_cancelling_ __attribute__((cleanup(api_leave), unused)) = api_enter()

/* Keep the sentence for this thread; returns `status`, so that callers can return it at once. */
int api_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a CUDA call: E_NO_MEMORY or E_CUDA, ": <call> answered <error>" appended. */
int api_fail_cuda(const struct driver *driver, cu_result result, const char *call,
		  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* GPUSHARE_OK, or E_NAME with a sentence that says what is wrong. */
int api_check_name(const char *name);

#endif
