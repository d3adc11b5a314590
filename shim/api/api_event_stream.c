/* SPDX-License-Identifier: MIT */
/* Which streams may record an interprocess event and wait for it. */
#include "api_event.h"

#define FIRST_HANDLE 3 /* lower handles name default streams, those of the current context */
#define LEGACY 1 /* this and 0 are the legacy stream: never captured, and asking is an error */

/* Whether the stream is of that context. For recording, a default stream always is. For waiting, a
 * default stream belongs to the current context, if there is one. */
static bool is_of(const struct driver *driver, cu_context context, cu_stream stream, bool waits)
{
	cu_context its = NULL;

	if ((uintptr_t)stream < FIRST_HANDLE)
		return !waits || driver->cuCtxGetCurrent(&its) != CU_OK || !its || its == context;
	return driver->cuStreamGetCtx(stream, &its) != CU_OK || !its || its == context;
}

/* Ask in the event's context: the per-thread default stream differs between contexts, and without a
 * context CUDA doesn't answer. */
static int see_capture(const struct gpushare_buffer *buffer, cu_stream stream, bool *out_captured)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	cu_capture_status answer = CU_CAPTURE_NONE;
	int status;

	*out_captured = false;
	if ((uintptr_t)stream <= LEGACY)
		return GPUSHARE_OK;
	status = device_enter(driver, buffer->context, &scope);
	if (status)
		return status;
	*out_captured =
	    driver->cuStreamIsCapturing(stream, &answer) == CU_OK && answer != CU_CAPTURE_NONE;
	return GPUSHARE_OK;
}

/* Drivers crash if an interprocess event is used with a stream of another context (580.159). They
 * can't capture such an event: trying to wait for one ends the capture. */
int event_check_stream(const struct gpushare_buffer *buffer, cu_stream stream, bool waits)
{
	const char *what = waits ? "waited for by" : "recorded on";
	const struct driver *driver = buffer->session->driver;
	bool captured;
	int status;

	if (!is_of(driver, buffer->context, stream, waits))
		return api_fail(GPUSHARE_E_INVALID,
				"'%s' can't be %s that stream: it is of another CUDA context than "
				"the one in which the event was made or opened, on device %d",
				buffer->info.name, what, buffer->device);
	status = see_capture(buffer, stream, &captured);
	if (!status && captured)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' can't be %s that stream: it is being captured, and CUDA "
				"captures no interprocess event; do it before or after the graph",
				buffer->info.name, what);
	return status;
}
