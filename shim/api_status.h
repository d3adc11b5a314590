/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_STATUS_H
#define GPUSHARE_SHIM_API_STATUS_H
/* How the API fails: a status, and a sentence for gpushare_explain(). */
#include "gpushare.h"
#include "driver.h"

#define API_SENTENCE_MAX 512 /* bytes, NUL included */
#define API_PUBLIC __attribute__((visibility("default")))

/* Keep the sentence for this thread; returns `status`, so that callers can return it at once. */
int api_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for a CUDA call: E_NO_MEMORY or E_CUDA, ": <call> answered <error>" appended. */
int api_fail_cuda(const struct driver *driver, cu_result result, const char *call,
		  const char *format, ...) __attribute__((format(printf, 4, 5)));

/* GPUSHARE_OK, or E_NAME with what is wrong. */
int api_check_name(const char *name);

#endif
