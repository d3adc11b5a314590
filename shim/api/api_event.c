/* SPDX-License-Identifier: MIT */
/*
 * Named events. Session, registry and resync treat an event as a buffer of 0 bytes. Its kind is
 * BUFFER_ALLOCATED if this session created it, and BUFFER_ATTACHED if it opened it. `pointer` is
 * the CUevent, and `handle` its IPC handle of 64 bytes.
 */
#include "api_session.h"
#include "api_used.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/monotonic.h"

#define EVENT_FLAGS (CU_EVENT_WAITS_BLOCKING | CU_EVENT_NO_TIMING | CU_EVENT_SHARED)
#define SPIN_NS 50000 /* how long the CPU queries without a pause */
#define NAP_NS 10000  /* the first pause; each is twice the one before */
#define NAP_MAX_NS 1000000
#define ASK_MS 500     /* between two requests if the name's count of changes can't be read */
#define SILENT_MS 5000 /* the same if the registry did not answer */
#define FIRST_HANDLE 3 /* lower handles name default streams, those of the current context */
/* This and 0 are the legacy stream. It is never captured; cuStreamIsCapturing() may refuse it. */
#define LEGACY 1

struct gpushare_event {
	struct gpushare_buffer named; /* the only member: a buffer is cast to its event */
};

static cu_event event_of(const struct gpushare_buffer *buffer)
{
	return (cu_event)(uintptr_t)buffer->pointer;
}

static int event_add(const struct driver *driver, cu_event event, cu_context context, bool kept)
{
	return used_add(&(struct used_object){
	    .key = (uintptr_t)event, .driver = driver, .context = context, .kept = kept});
}

/* The current context if it is on that device. Else the device's primary context, which the session
 * retains: *out_kept is true. */
static int event_context(struct gpushare_session *session, int device, cu_context *out_context,
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

/* Create the event in the buffer's context. */
static int event_make(struct gpushare_buffer *buffer, unsigned int flags, bool kept)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	const char *call = "cuEventCreate";
	cu_ipc_event_handle handle;
	cu_event event = NULL;
	cu_result result;
	int status = device_enter_relaxed(driver, buffer->context, &scope);

	if (status)
		return status;
	result = driver->cuEventCreate(&event, flags | CU_EVENT_NO_TIMING | CU_EVENT_SHARED);
	if (result == CU_OK) {
		call = "cuIpcGetEventHandle";
		result = driver->cuIpcGetEventHandle(&handle, event);
	}
	status = result == CU_OK ? event_add(driver, event, buffer->context, kept)
				 : event_refused(driver, result, call, buffer->info.name);
	if (status) {
		if (event)
			driver->cuEventDestroy_v2(event);
		return status;
	}
	_Static_assert(sizeof(handle) == sizeof(buffer->handle), "both travel as 64 bytes");
	memcpy(&buffer->handle, &handle, sizeof(handle));
	buffer->pointer = (uintptr_t)event;
	return GPUSHARE_OK;
}

static int event_enter(struct gpushare_buffer *buffer, unsigned int flags)
{
	struct gpushare_session *session = buffer->session;
	bool kept;
	int status = event_context(session, buffer->device, &buffer->context, &kept);

	if (!status)
		status = device_uuid(session->driver, buffer->device, buffer->info.device_uuid);
	if (!status)
		status = event_make(buffer, flags, kept);
	if (status)
		return status;
	status = share_enter(buffer, -1);
	if (status) {
		API_KEEP_SENTENCE;

		used_drop(buffer->pointer);
	}
	return status;
}

API_PUBLIC int gpushare_event_create(struct gpushare_session *session, const char *name, int device,
				     unsigned int flags, struct gpushare_event **out_event)
{
	return gpushare_event_create_with(session, name, device, flags, NULL, out_event);
}

API_PUBLIC int gpushare_event_create_with(struct gpushare_session *session, const char *name,
					  int device, unsigned int flags,
					  const struct gpushare_share_options *options,
					  struct gpushare_event **out_event)
{
	API_CALL;
	static const struct gpushare_share_options defaults;
	_cleanup_free_ struct gpushare_buffer *buffer = NULL;
	int status = API_NEED(session_check_name(session, name), out_event);

	if (!options)
		options = &defaults;
	if (!status)
		status = event_check_flags(name, flags);
	if (!status && options->staged)
		status = api_fail(
		    GPUSHARE_E_INVALID,
		    "'%s': an event can't be staged, because it has no contents to fill in first",
		    name);
	if (!status)
		status = share_new(session, name, BUFFER_ALLOCATED, options->mode, options->group,
				   &buffer);
	if (status)
		return status;
	if (!session_driver(session))
		return GPUSHARE_E_NO_DRIVER;
	session_deferred_sweep(session);
	buffer->info.backing = GPUSHARE_BACKING_EVENT;
	status = device_choose(session->driver, device, &buffer->device);
	if (!status)
		status = event_enter(buffer, flags);
	if (status)
		return status;
	*out_event = (struct gpushare_event *)buffer;
	buffer = NULL;
	return GPUSHARE_OK;
}

/* The device that the options choose; else the owner's GPU if it is visible, else the current
 * context's device or device 0. */
static int open_device(const struct driver *driver, const record *from,
		       const struct gpushare_event_options *options, int *out_device)
{
	int status;

	if (options->on_device)
		return device_choose(driver, options->device, out_device);
	status = device_reach(driver, from->device_uuid, NULL, out_device);
	return status == GPUSHARE_E_DEVICE ? device_choose(driver, -1, out_device) : status;
}

static int open_import(struct gpushare_buffer *buffer, const gpushare_AttachReply *answer)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	cu_ipc_event_handle handle;
	cu_event event = NULL;
	cu_result result;
	bool kept;
	int status = event_context(buffer->session, buffer->device, &buffer->context, &kept);

	if (!status)
		status = device_enter_relaxed(driver, buffer->context, &scope);
	if (status)
		return status;
	memcpy(&handle, answer->handle, sizeof(handle));
	result = driver->cuIpcOpenEventHandle(&event, handle);
	if (result != CU_OK)
		return mapping_refused(driver, result, &answer->buffer);
	status = event_add(driver, event, buffer->context, kept);
	if (status)
		driver->cuEventDestroy_v2(event);
	buffer->pointer = (uintptr_t)event;
	return status;
}

/* CUDA opens no event in the process that created it, so use the creator's CUevent. */
static int open_own(struct gpushare_buffer *buffer, const record *from)
{
	struct gpushare_session *session = buffer->session;
	struct used_object used;
	cu_context unused;

	if (!used_take(from->address, 0, &used))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' was created in this process by another copy of gpushare's "
				"library, and CUDA opens no event in the process that made it",
				from->name);
	buffer->pointer = from->address;
	buffer->context = used.context;
	if (used.kept &&
	    device_retain(&session->devices, session->driver, buffer->device, &unused)) {
		used_drop(from->address);
		return GPUSHARE_E_CUDA;
	}
	return GPUSHARE_OK;
}

/* The attach_make of events. */
static int open_make(struct gpushare_buffer *buffer, const struct attach_answer *asked,
		     const void *options)
{
	const gpushare_AttachReply *answer = &asked->reply;
	const record *from = &answer->buffer;
	int status;

	if (from->backing != GPUSHARE_BACKING_EVENT)
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry's answer says that '%s' is an event, but lacks the "
				"event's data: restart it with this version",
				from->name);
	buffer->kind = BUFFER_ATTACHED;
	if (answer->own) /* the owner is this process, so never ask whether it is gone */
		buffer->ask_ms = INT64_MAX;
	status = open_device(buffer->session->driver, from, options, &buffer->device);
	if (status)
		return status;
	return answer->own ? open_own(buffer, from) : open_import(buffer, answer);
}

API_PUBLIC int gpushare_event_open(struct gpushare_session *session, const char *name,
				   const struct gpushare_event_options *options,
				   struct gpushare_event **out_event)
{
	API_CALL;
	static const struct gpushare_event_options defaults;
	static const struct gpushare_attach_options any;
	const struct attach_way way = {
	    .kind = ATTACH_EVENT,
	    .options = &any,
	    .make = open_make,
	    .make_options = options ? options : &defaults,
	    .wait_ms = options ? options->wait_ms : 0,
	};
	struct gpushare_buffer *buffer = NULL;
	int status = API_NEED(session_check_name(session, name), out_event);

	if (status)
		return status;
	if (!session_driver(session))
		return GPUSHARE_E_NO_DRIVER;
	status = attach_all(session, &name, 1, &way, &buffer);
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

/* Whether the stream belongs to that context. For recording, a default stream always does. For
 * waiting, a default stream belongs to the current context, if there is one. */
static bool is_of(const struct driver *driver, cu_context context, cu_stream stream, bool waits)
{
	cu_context its = NULL;

	if ((uintptr_t)stream < FIRST_HANDLE)
		return !waits || driver->cuCtxGetCurrent(&its) != CU_OK || !its || its == context;
	return driver->cuStreamGetCtx(stream, &its) != CU_OK || !its || its == context;
}

/* Ask CUDA in the event's context: the per-thread default stream differs between contexts, and
 * without a context CUDA doesn't answer. */
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
 * can't capture such an event: trying to wait for one invalidates the capture. */
static int check_stream(const struct gpushare_buffer *buffer, cu_stream stream, bool waits)
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
				"captures no interprocess event; do it before or after the capture",
				buffer->info.name, what);
	return status;
}

static int wait_check(const struct gpushare_event *event)
{
	if (!event)
		return api_fail(GPUSHARE_E_INVALID, "the event is NULL; get one from "
						    "gpushare_event_create() or _open()");
	return session_check(event->named.session);
}

API_PUBLIC int gpushare_event_record(struct gpushare_event *event, void *stream)
{
	API_CALL;
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver;
	cu_result result;
	int status = wait_check(event);

	if (status)
		return status;
	driver = event->named.session->driver;
	status = check_stream(&event->named, stream, false);
	if (!status)
		status = device_enter(driver, event->named.context, &scope);
	if (status)
		return status;
	result = driver->cuEventRecord(event_of(&event->named), stream);
	if (result == CU_OK)
		return GPUSHARE_OK;
	if (result == CU_INVALID_HANDLE)
		return api_fail(
		    GPUSHARE_E_INVALID,
		    "'%s' can't be recorded on that stream: the stream is not valid, or "
		    "not of the CUDA context in which the event was made or opened, on "
		    "device %d",
		    event->named.info.name, event->named.device);
	return api_fail_cuda(driver, result, "cuEventRecord", "'%s' can't be recorded",
			     event->named.info.name);
}

/* Whether to ask the registry if the owner still has the event. That is not needed while the name's
 * count of changes is what it was at the registry's last answer. If the count can't be read, e.g.
 * after a restart, ask when `ask_ms` is reached. *out_known: the count could be read. */
static bool must_ask(struct gpushare_buffer *buffer, uint64_t *out_change, bool *out_known)
{
	struct gpushare_session *session = buffer->session;
	bool must;

	*out_known = false;
	if (session_look_client(session)) {
		*out_known = client_read_changes(session->client, buffer->info.name, out_change);
		session_give_client(session);
	}
	pthread_mutex_lock(&session->lock);
	if (*out_known && buffer->is_watched && buffer->ask_ms != INT64_MAX)
		must = buffer->change != *out_change;
	else
		must = monotonic_ms() >= buffer->ask_ms;
	pthread_mutex_unlock(&session->lock);
	return must;
}

static void remember(struct gpushare_buffer *buffer, int status, uint64_t change, bool is_known)
{
	struct gpushare_session *session = buffer->session;
	bool fetches = !is_known && status == GPUSHARE_OK; /* so that the next look has a count */

	if (fetches && session_try_client(session, session_deadline(session))) {
		client_fetch_changes(session->client);
		session_give_client(session);
	}
	pthread_mutex_lock(&session->lock);
	buffer->is_watched = is_known && status == GPUSHARE_OK;
	buffer->change = change;
	buffer->ask_ms = monotonic_ms() + (status == GPUSHARE_OK ? ASK_MS : SILENT_MS);
	pthread_mutex_unlock(&session->lock);
}

/* Whether the owner is gone, so that an unfinished event never finishes. If true, this thread's
 * error sentence has the reason. */
static bool owner_is_gone(struct gpushare_buffer *buffer)
{
	request question = {.which_verb = gpushare_Request_lookup_tag};
	gpushare_Lookup *lookup = &question.verb.lookup;
	gpushare_LookupReply answer;
	uint64_t change = 0;
	bool is_known;
	int status;

	if (!buffer_is_attached(buffer) || !must_ask(buffer, &change, &is_known))
		return false;
	memcpy(lookup->name, buffer->info.name, sizeof(lookup->name));
	lookup->generation = buffer->info.generation;
	status = session_ask(buffer->session, &question, BODY(lookup, &answer));
	if (status != GPUSHARE_E_NOT_FOUND)
		remember(buffer, status, change, is_known);
	return status == GPUSHARE_E_NOT_FOUND;
}

static int gone(const struct gpushare_buffer *buffer)
{
	return api_fail(GPUSHARE_E_OWNER_GONE,
			"'%s' was recorded and is not done, and its owner is gone: %s",
			buffer->info.name, gpushare_explain());
}

/* In relaxed capture mode, the query invalidates no capture by another thread or on this thread's
 * other streams. */
static int ask_driver(const struct gpushare_buffer *buffer)
{
	_device_scope_ struct device_scope scope = {NULL};
	const struct driver *driver = buffer->session->driver;
	cu_result result;
	int status = device_enter_relaxed(driver, buffer->context, &scope);

	if (status)
		return status;
	result = driver->cuEventQuery(event_of(buffer));
	if (result == CU_OK)
		return GPUSHARE_OK;
	if (result == CU_NOT_READY)
		return GPUSHARE_E_NOT_READY;
	return api_fail_cuda(driver, result, "cuEventQuery", "can't query whether '%s' is done",
			     buffer->info.name);
}

/* Query again after asking the registry: the event may have finished before its owner ended. */
static int look(struct gpushare_buffer *buffer)
{
	int status = ask_driver(buffer);

	if (status != GPUSHARE_E_NOT_READY || !owner_is_gone(buffer))
		return status;
	status = ask_driver(buffer);
	return status == GPUSHARE_E_NOT_READY ? gone(buffer) : status;
}

API_PUBLIC int gpushare_event_query(struct gpushare_event *event)
{
	API_CALL;
	int status = wait_check(event);

	if (status)
		return status;
	status = look(&event->named);
	if (status == GPUSHARE_E_NOT_READY)
		return api_fail(status, "'%s' is not done yet", event->named.info.name);
	return status;
}

API_PUBLIC int gpushare_event_wait(struct gpushare_event *event, void *stream)
{
	API_CALL;
	_device_scope_ struct device_scope scope = {NULL};
	struct gpushare_buffer *buffer;
	const struct driver *driver;
	cu_result result;
	int status = wait_check(event);

	if (status)
		return status;
	buffer = &event->named;
	driver = buffer->session->driver;
	/* if the owner is gone, the stream would wait for ever */
	if (owner_is_gone(buffer) && ask_driver(buffer) == GPUSHARE_E_NOT_READY)
		return gone(buffer);
	status = check_stream(buffer, stream, true);
	if (!status)
		status = device_enter(driver, buffer->context, &scope);
	if (status)
		return status;
	result = driver->cuStreamWaitEvent(stream, event_of(buffer), 0);
	if (result == CU_OK)
		return GPUSHARE_OK;
	if (result == CU_INVALID_HANDLE)
		return api_fail(GPUSHARE_E_INVALID,
				"'%s' can't be waited for by that stream: the stream is not valid, "
				"or of another CUDA context than the event",
				buffer->info.name);
	return api_fail_cuda(driver, result, "cuStreamWaitEvent", "'%s' can't be waited for",
			     buffer->info.name);
}

static int64_t now_ns(void)
{
	const struct timespec now = monotonic_in_ms(0);

	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

/* A wait may never end, so the thread can be cancelled here, where it holds no lock. */
static void nap(int64_t ns, int cancelling)
{
	const struct timespec pause = {0, ns > 0 ? ns : 0};

	pthread_setcancelstate(cancelling, NULL);
	nanosleep(&pause, NULL); /* if a signal ends it, the next query is only earlier */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
}

API_PUBLIC int gpushare_event_wait_host(struct gpushare_event *event, int timeout_ms)
{
	API_CALL;
	int64_t begin_ns = now_ns(), pause_ns = NAP_NS;
	int64_t end_ns = timeout_ms < 0 ? INT64_MAX : begin_ns + timeout_ms * INT64_C(1000000);
	int status = wait_check(event);

	while (!status) {
		int64_t at_ns = now_ns();

		status = look(&event->named);
		if (status != GPUSHARE_E_NOT_READY)
			return status;
		if (at_ns >= end_ns)
			return api_fail(GPUSHARE_E_TIMED_OUT,
					"the work before the event '%s' did not end within %d ms",
					event->named.info.name, timeout_ms);
		status = GPUSHARE_OK;
		if (at_ns - begin_ns < SPIN_NS)
			continue;
		nap(pause_ns < end_ns - at_ns ? pause_ns : end_ns - at_ns, api_cancelling_);
		api_excuse(api_waited_ms); /* the wait has a limit of its own */
		pause_ns = pause_ns < NAP_MAX_NS / 2 ? 2 * pause_ns : NAP_MAX_NS;
	}
	return status;
}
