/* SPDX-License-Identifier: MIT */
/* Opening events by name: those of other processes and of this one. */
#include "api_event.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Translate the errors of cuIpcOpenEventHandle. */
static int open_refused(const struct driver *driver, cu_result result, const record *from)
{
	const char *answer = driver_error_name(driver, result);

	switch (result) {
	case CU_INVALID_VALUE:
	case CU_INVALID_HANDLE:
	case CU_NOT_PERMITTED:
		return api_fail(GPUSHARE_E_OWNER_GONE,
				"'%s' can't be opened: its owner, %s (process %" PRId32
				"), has closed it or is gone (%s); start the owner again, or wait "
				"for a new '%s'",
				from->name, from->owner_command, from->owner_pid, answer,
				from->name);
	case CU_MAP_FAILED:
		return api_fail(
		    GPUSHARE_E_CUDA,
		    "'%s' can't be opened: cuIpcOpenEventHandle answered %s. CUDA shares "
		    "events by /dev/shm, and this process has another one than the "
		    "owner, process %" PRId32 "; give both containers the same, as "
		    "docker run --ipc does",
		    from->name, answer, from->owner_pid);
	case CU_INVALID_CONTEXT: /* CUDA takes the owner for this process; see mapping_refused() */
		return api_fail(
		    GPUSHARE_E_NOT_SUPPORTED,
		    "CUDA confuses the owner of '%s' with this process: it has the same "
		    "pid, %d, in another container. Start one of them with another pid",
		    from->name, getpid());
	case CU_PEER_ACCESS_UNSUPPORTED:
		return api_fail(GPUSHARE_E_DEVICE,
				"'%s' is an event of a GPU that this process's GPU can't reach "
				"(%s): open it on its own GPU",
				from->name, answer);
	case CU_NOT_SUPPORTED:
		return api_fail(
		    GPUSHARE_E_NOT_SUPPORTED,
		    "the event '%s' can't be opened: CUDA IPC events are not supported here",
		    from->name);
	default:
		return api_fail_cuda(driver, result, "cuIpcOpenEventHandle",
				     "the event '%s' of process %" PRId32 " can't be opened",
				     from->name, from->owner_pid);
	}
}

/* The device that the options choose; else the owner's GPU if it is visible, else any visible
 * one. */
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
		return open_refused(driver, result, &answer->buffer);
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
	cu_context unused;
	bool kept;

	if (!event_use(from->address, &buffer->context, &kept))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' was created in this process by another copy of gpushare's "
				"library, and CUDA opens no event in the process that made it",
				from->name);
	buffer->pointer = from->address;
	if (kept && device_retain(&session->devices, session->driver, buffer->device, &unused)) {
		event_drop(from->address);
		return GPUSHARE_E_CUDA;
	}
	return GPUSHARE_OK;
}

/* An attach_make. */
static int open_make(struct gpushare_session *session, const struct attach_answer *asked,
		     const void *options, struct gpushare_buffer **out)
{
	_cleanup_free_ struct gpushare_buffer *buffer = NULL;
	const gpushare_AttachReply *answer = &asked->reply;
	const record *from = &answer->buffer;
	void *made;
	int status;

	if (from->backing != GPUSHARE_BACKING_EVENT)
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry's answer says that '%s' is an event, but lacks the "
				"event's data: restart it with this version",
				from->name);
	made = calloc(1, sizeof(struct gpushare_event)); /* begins with its buffer */
	buffer = made;
	if (!buffer)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to open '%s'", from->name);
	buffer->session = session;
	buffer->kind = BUFFER_ATTACHED;
	buffer->count = 1;
	query_info(from, &buffer->info);
	if (answer->own) /* never ask the registry whether this process is gone */
		buffer->ask_ms = INT64_MAX;
	status = open_device(session->driver, from, options, &buffer->device);
	if (!status)
		status = answer->own ? open_own(buffer, from) : open_import(buffer, answer);
	if (status)
		return status;
	*out = buffer;
	buffer = NULL;
	return GPUSHARE_OK;
}

static int open_cold(struct gpushare_session *session, const char *name,
		     const struct gpushare_event_options *options, struct gpushare_buffer **out)
{
	static const struct gpushare_attach_options any;
	const struct attach_way way = {
	    .kind = ATTACH_EVENT,
	    .options = &any,
	    .make = open_make,
	    .make_options = options,
	    .wait_ms = options->wait_ms,
	    .deadline_ms = attach_deadline(options->wait_ms),
	};
	struct attach_answer answer;
	uint64_t change = 0;
	bool is_watched;
	int status;

	if (!session_try_client(session, session_deadline(session)))
		return session_fail_client(session);
	client_fetch_changes(session->client);
	is_watched = client_read_changes(session->client, name, &change);
	session_give_client(session);
	status = attach_finish(session, name, &way, attach_ask(session, name, way.kind, &answer),
			       &answer, out);
	if (status)
		return status;
	session_lock(session);
	(*out)->is_watched = is_watched && (*out)->ask_ms != INT64_MAX;
	(*out)->change = change;
	pthread_mutex_unlock(&session->lock);
	return GPUSHARE_OK;
}

API_PUBLIC int gpushare_event_open(struct gpushare_session *session, const char *name,
				   const struct gpushare_event_options *options,
				   struct gpushare_event **out_event)
{
	API_CALL;
	static const struct gpushare_event_options defaults;
	struct gpushare_buffer *buffer = NULL;
	int status = event_check(session, name, out_event);

	if (status)
		return status;
	if (!session_driver(session))
		return GPUSHARE_E_NO_DRIVER;
	status = open_cold(session, name, options ? options : &defaults, &buffer);
	if (!status)
		*out_event = (struct gpushare_event *)buffer;
	return status;
}
