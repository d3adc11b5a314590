/* SPDX-License-Identifier: MIT */
/* Stream-sync pages for GPUs: the page is registered with the driver. */
#include "api_order_stream.h"

#include <stdlib.h>
#include <string.h>

int stream_fail(const struct ordering *ordering, cu_result result, const char *call)
{
	return api_fail_cuda(ordering->driver, result, call, "ordering '%s' failed",
			     ordering->name);
}

/* Does the GPU have 64-bit stream memory operations? With GPUSHARE_ORDERING=host-functions the
 * answer is no, to test host functions on any GPU. */
static bool has_words(const struct driver *driver)
{
	const char *wanted = secure_getenv("GPUSHARE_ORDERING");
	cu_device device;
	int has = 0;

	return driver->cuStreamWaitValue64_v2 && driver->cuStreamWriteValue64_v2 &&
	       !(wanted && !strcmp(wanted, "host-functions")) &&
	       driver->cuCtxGetDevice(&device) == CU_OK &&
	       driver->cuDeviceGetAttribute(&has, CU_DEVICE_STREAM_WORDS, device) == CU_OK && has;
}

cu_event view_probe(const struct driver *driver)
{
	cu_event probe = NULL;

	return driver->cuEventCreate(&probe, CU_EVENT_NO_TIMING) == CU_OK ? probe : NULL;
}

/* Register the page. The buffer's context is current. */
static int view_open(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	const struct driver *driver = ordering->driver;
	const char *call = "cuMemHostRegister_v2";
	cu_deviceptr at = 0;
	cu_result result = driver->cuMemHostRegister_v2(
	    ordering->page, ORDER_PAGE_SIZE, CU_HOST_REGISTER_PORTABLE | CU_HOST_REGISTER_MAPPED);

	if (result == CU_OK) {
		call = "cuMemHostGetDevicePointer_v2";
		result = driver->cuMemHostGetDevicePointer_v2(&at, ordering->page, 0);
		if (result != CU_OK)
			driver->cuMemHostUnregister(ordering->page);
	}
	if (result != CU_OK)
		return stream_fail(ordering, result, call);
	ordering->probe = view_probe(driver);
	ordering->context = buffer->context;
	atomic_store(&ordering->means, GPUSHARE_ORDERING_STREAM);
	view_add(ordering);
	atomic_store(&ordering->at, at);
	return GPUSHARE_OK;
}

static bool is_ready(const struct ordering *ordering)
{
	return atomic_load_explicit(&ordering->at, memory_order_acquire) ||
	       atomic_load_explicit(&ordering->means, memory_order_acquire) ==
		   GPUSHARE_ORDERING_HOST_FUNCTION;
}

static int open_here(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	_device_scope_ struct device_scope scope = {NULL};
	int status;

	atomic_store(&ordering->driver, buffer->session->driver);
	status = device_enter_relaxed(ordering->driver, buffer->context, &scope);
	if (status)
		return status;
	return has_words(ordering->driver) ? view_open(buffer, ordering)
					   : host_open(buffer, ordering);
}

/* Only one thread registers the page, as a page can be registered once. If that fails, the next
 * caller tries again. */
int stream_ready(const struct gpushare_buffer *buffer, struct ordering *ordering)
{
	int status;

	if (is_ready(ordering))
		return GPUSHARE_OK;
	status = ordering_take_at_driver(ordering, &ordering->opening);
	if (status)
		return status;
	if (!is_ready(ordering))
		status = open_here(buffer, ordering);
	pthread_mutex_unlock(&ordering->opening);
	return status;
}

bool stream_has_failed(void *user)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct ordering *ordering = user;
	cu_result result;

	if (!atomic_load(&ordering->means) || !ordering->probe)
		return false;
	if (device_enter_relaxed(ordering->driver, ordering->context, &scope))
		return true;
	result = ordering->driver->cuEventQuery(ordering->probe);
	return result != CU_OK && result != CU_NOT_READY;
}
