/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_STATUS_H
#define GPUSHARE_SHIM_API_STATUS_H
/* How the API fails: a status, and a sentence for gpushare_explain(). */
#include <pthread.h>

#include "gpushare.h"
#include "cuda/driver.h"

#define API_SENTENCE_MAX 512 /* bytes, NUL included */
#define API_PUBLIC __attribute__((visibility("default")))

/* api_waited_ms: how long this thread has waited for the registry, or for another thread's request.
 * api_excused_ms: the part before this call or the latest answer, which the time limit excludes. */
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
 * The first line of each public function that takes a lock, asks the registry or calls the driver.
 * It disables cancellation until the function returns, because the thread may hold locks. A thread
 * that is cancelled meanwhile ends at its next cancellation point.
 */
#define API_CALL int api_cancelling_ __attribute__((cleanup(api_leave), unused)) = api_enter()

/* Set this thread's sentence for gpushare_explain(). Returns `status`. */
int api_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Evaluates to `status`; to E_INVALID if that is OK and the pointer argument is NULL. */
#define API_NEED(status, argument) api_need(status, (argument) != NULL, #argument)
int api_need(int status, int given, const char *name);

/* As api_fail(), for a failed CUDA call: returns E_NO_MEMORY or E_CUDA, and appends ": <call>
 * answered <error>". */
int api_fail_cuda(const struct driver *driver, cu_result result, const char *call,
		  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* Restores this thread's present sentence at the end of the scope. */
#define API_KEEP_SENTENCE \
	struct api_kept api_kept_ __attribute__((cleanup(api_unkeep), unused)) = api_keep()
struct api_kept {
	char sentence[API_SENTENCE_MAX];
};
struct api_kept api_keep(void);
void api_unkeep(const struct api_kept *kept);

/* GPUSHARE_OK, or E_NAME with a sentence that says what is wrong. */
int api_check_name(const char *name);

#endif
