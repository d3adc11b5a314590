/* SPDX-License-Identifier: MIT */
/* Creating and closing named events. */
#include "api_event.h"
#include "api_source.h"

#include <stdio.h>
#include <string.h>

#define EVENT_FLAGS (CU_EVENT_WAITS_BLOCKING | CU_EVENT_NO_TIMING | CU_EVENT_SHARED)

int event_check(const struct gpushare_session *session, const char *name,
		struct gpushare_event *const *out_event)
{
	int status = session_check_name(session, name);

	if (!status && !out_event)
		status = api_fail(GPUSHARE_E_INVALID, "out_event is NULL");
	return status;
}

int event_context(struct gpushare_session *session, int device, cu_context *out_context,
		  bool *out_kept)
{
	const struct driver *driver = session->driver;
	cu_context current = NULL;
	cu_device its = -1;

	*out_kept = driver->cuCtxGetCurrent(&current) != CU_OK || !current ||
		    driver->cuCtxGetDevice(&its) != CU_OK || (int)its != device;
	if (*out_kept)
		return device_retain(&session->devices, driver, device, out_context);
	*out_context = current;
	return GPUSHARE_OK;
}

/* Refuse the flags that cuEventCreate refuses, but with a reason. */
static int event_check_flags(const char *name, unsigned int flags)
{
	if (flags & ~(unsigned int)EVENT_FLAGS)
		return api_fail(GPUSHARE_E_INVALID, "'%s': unknown event flags 0x%x", name,
				flags & ~(unsigned int)EVENT_FLAGS);
	if (flags && !(flags & CU_EVENT_NO_TIMING))
		return api_fail(GPUSHARE_E_INVALID,
				"'%s' would record times, which an interprocess event can't do "
				"(CUDA_ERROR_INVALID_VALUE); add CU_EVENT_DISABLE_TIMING",
				name);
	return GPUSHARE_OK;
}

static int event_refused(const struct driver *driver, cu_result result, const char *call,
			 const char *name)
{
	if (result == CU_OUT_OF_MEMORY)
		return api_fail_cuda(driver, result, call,
				     "can't create an event for '%s': a process has at most 4096 "
				     "interprocess events; close some",
				     name);
	if (result == CU_NOT_SUPPORTED)
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' can't be shared: CUDA IPC events are not supported on this "
				"GPU (%s)",
				name, call);
	return api_fail_cuda(driver, result, call, "can't create an event for '%s'", name);
}

/* Create the event in the source's context; source->pointer becomes the CUevent. */
static int event_make(const struct driver *driver, const char *name, unsigned int flags, bool kept,
		      struct source *source)
{
	_device_scope_ struct device_scope scope = {NULL};
	const char *call = "cuEventCreate";
	cu_ipc_event_handle handle;
	cu_event event = NULL;
	cu_result result;
	int status = device_enter_relaxed(driver, source->context, &scope);

	if (status)
		return status;
	result = driver->cuEventCreate(&event, flags | CU_EVENT_NO_TIMING | CU_EVENT_SHARED);
	if (result == CU_OK) {
		call = "cuIpcGetEventHandle";
		result = driver->cuIpcGetEventHandle(&handle, event);
	}
	status = result == CU_OK ? event_add(driver, event, source->context, kept)
				 : event_refused(driver, result, call, name);
	if (status) {
		if (event)
			driver->cuEventDestroy_v2(event);
		return status;
	}
	_Static_assert(sizeof(handle) == sizeof(source->handle), "both travel as 64 bytes");
	memcpy(&source->handle, &handle, sizeof(handle));
	source->pointer = source->base = (uintptr_t)event;
	return GPUSHARE_OK;
}

static int event_enter(struct gpushare_session *session, const char *name, unsigned int flags,
		       struct source *source, struct gpushare_buffer **out_buffer)
{
	char why[API_SENTENCE_MAX];
	bool kept;
	int status = event_context(session, source->device, &source->context, &kept);

	if (!status)
		status = device_uuid(session->driver, source->device, source->uuid);
	if (!status)
		status = event_make(session->driver, name, flags, kept, source);
	if (status)
		return status;
	status = share_enter(session, name, BUFFER_ALLOCATED, source, out_buffer);
	if (!status)
		return GPUSHARE_OK;
	snprintf(why, sizeof(why), "%s", gpushare_explain());
	event_drop(source->pointer);
	return api_fail(status, "%s", why);
}

API_PUBLIC int gpushare_event_create(struct gpushare_session *session, const char *name, int device,
				     unsigned int flags, struct gpushare_event **out_event)
{
	API_CALL;
	return gpushare_event_create_with(session, name, device, flags, NULL, out_event);
}

API_PUBLIC int gpushare_event_create_with(struct gpushare_session *session, const char *name,
					  int device, unsigned int flags,
					  const struct gpushare_share_options *options,
					  struct gpushare_event **out_event)
{
	API_CALL;
	struct source source = {.fd = -1, .backing = GPUSHARE_BACKING_EVENT};
	struct gpushare_buffer *buffer = NULL;
	const struct driver *driver;
	int status = event_check(session, name, out_event);

	if (!status)
		status = event_check_flags(name, flags);
	if (!status && options && options->staged)
		status = api_fail(
		    GPUSHARE_E_INVALID,
		    "'%s': an event can't be staged, because it has no contents to fill in first",
		    name);
	if (!status && options)
		status = share_check_rights(name, options->mode, options->group, &source.rights);
	if (status)
		return status;
	driver = session_driver(session);
	if (!driver)
		return GPUSHARE_E_NO_DRIVER;
	session_deferred_sweep(session);
	status = device_choose(driver, device, &source.device);
	if (!status)
		status = event_enter(session, name, flags, &source, &buffer);
	if (!status)
		*out_event = (struct gpushare_event *)buffer;
	return status;
}

API_PUBLIC int gpushare_event_close(struct gpushare_event *event)
{
	API_CALL;
	int status;

	if (!event)
		return GPUSHARE_OK;
	status = session_check_buffer(&event->named);
	if (status)
		return status;
	return buffer_is_attached(&event->named) ? session_end_attached(&event->named)
						 : session_end_shared(&event->named);
}

API_PUBLIC void *gpushare_event_handle(const struct gpushare_event *event)
{
	return event ? event_of(&event->named) : NULL;
}

API_PUBLIC int gpushare_event_info(const struct gpushare_event *event,
				   struct gpushare_info *out_info)
{
	API_CALL;
	if (!event || !out_info)
		return api_fail(GPUSHARE_E_INVALID, "%s is NULL", event ? "out_info" : "event");
	*out_info = event->named.info;
	return GPUSHARE_OK;
}
