/* SPDX-License-Identifier: MIT */
#include "api_order.h"
#include "api_session.h"
#include "api_unified.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* Read the name's count of changes. An answer of the registry after that holds until the count
 * grows. */
static int attach_watch(struct gpushare_session *session, const char *name, bool *out_is_watched,
			uint64_t *out_change)
{
	if (!session_look_client(session))
		return session_fail_client(session);
	*out_is_watched = client_read_changes(session->client, name, out_change);
	session_give_client(session);
	return GPUSHARE_OK;
}

/* Attachments with and without CUDA are two buffers; so are read-only and writable ones. */
static bool attach_is_alike(const struct gpushare_buffer *seen,
			    const struct gpushare_attach_options *options)
{
	return seen->host_only == (options->host_only != 0) &&
	       seen->asked_read_only == (options->read_only != 0);
}

static bool attach_is_current(const struct gpushare_buffer *seen, const char *name,
			      const struct gpushare_attach_options *options, uint64_t change)
{
	return buffer_is_attached(seen) && !buffer_is_event(seen) &&
	       attach_is_alike(seen, options) && seen->is_watched && seen->change == change &&
	       !strcmp(seen->info.name, name);
}

/* Under the lock. If the buffer is detached and the registry is still to be told (`owed`), continue
 * that attachment. */
static void attach_count_warm(struct gpushare_buffer *seen)
{
	if (seen->count) {
		seen->warm++;
		return;
	}
	seen->count = 1;
	seen->owed = false;
}

/* Find a buffer that this session has attached, and whose name has not changed since the registry's
 * answer. Count it once more here, without asking the registry. NULL: ask the registry. */
static struct gpushare_buffer *attach_warm(struct gpushare_session *session, const char *name,
					   const struct gpushare_attach_options *options,
					   uint64_t change)
{
	struct gpushare_buffer *seen;

	if (options->same_address)
		return NULL;
	session_lock(session);
	DL_FOREACH (session->buffers, seen) {
		if (attach_is_current(seen, name, options, change))
			break;
	}
	if (seen)
		attach_count_warm(seen);
	pthread_mutex_unlock(&session->lock);
	return seen;
}

/* The registry passes on what the owner said, so check it as far as possible. */
static int attach_check(const record *from)
{
	if (!backing_is_known(from->backing))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' has backing %" PRIu32 ", which gpushare %s does not know",
				from->name, from->backing, GPUSHARE_VERSION);
	if (!from->size || from->base_offset > from->base_size ||
	    from->size > from->base_size - from->base_offset)
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry says that '%s' is %" PRIu64
				" bytes at offset %" PRIu64 " of an allocation of %" PRIu64
				" bytes, which is impossible: share it again",
				from->name, from->size, from->base_offset, from->base_size);
	return GPUSHARE_OK;
}

/* The same buffer if this session has it, counted once more; else NULL. The caller holds the lock.
 * *out_misplaced: `options` require the owner's address, and the buffer is at another. Such a
 * buffer is not counted. */
static struct gpushare_buffer *attach_seen(struct gpushare_session *session, const record *from,
					   const struct gpushare_attach_options *options,
					   bool *out_misplaced)
{
	struct gpushare_buffer *seen;

	*out_misplaced = false;
	DL_FOREACH (session->buffers, seen) {
		if (!buffer_is_attached(seen) || !attach_is_alike(seen, options) ||
		    seen->info.generation != from->generation ||
		    strcmp(seen->info.name, from->name))
			continue;
		*out_misplaced = options->same_address && seen->pointer != from->address;
		if (!*out_misplaced)
			seen->count++;
		return seen;
	}
	return NULL;
}

static int attach_misplaced(const record *from)
{
	return api_fail(GPUSHARE_E_ADDRESS_TAKEN,
			"'%s' is attached here already, but not at 0x%" PRIx64
			", where its owner has it; detach it first",
			from->name, from->address);
}

/* Two threads may map the same buffer at once; the first struct stays and the other is freed. */
static int attach_publish(struct gpushare_buffer *buffer, const record *from,
			  const struct gpushare_attach_options *options, unsigned int readings,
			  struct gpushare_buffer **out_buffer)
{
	struct gpushare_session *session = buffer->session;
	struct gpushare_buffer *seen;
	bool misplaced;

	session_lock(session);
	resync_check(&session->resync, readings);
	seen = attach_seen(session, from, options, &misplaced);
	if (!seen)
		DL_PREPEND(session->buffers, buffer);
	pthread_mutex_unlock(&session->lock);
	if (!seen) {
		*out_buffer = buffer;
		return GPUSHARE_OK;
	}
	if (buffer->kind == BUFFER_ATTACHED)
		mapping_close(buffer);
	buffer_free(buffer);
	if (misplaced)
		return attach_misplaced(from);
	*out_buffer = seen;
	return GPUSHARE_OK;
}

/* Map the buffer into this process, through CUDA or without. */
static int attach_open(struct gpushare_buffer *buffer, const struct attach_answer *answer,
		       const struct gpushare_attach_options *options)
{
	const struct driver *driver;
	int status;

	if (options->host_only)
		return mapping_open_host(buffer, answer);
	driver = session_driver(buffer->session);
	if (!driver)
		return GPUSHARE_E_NO_DRIVER;
	status = device_reach(driver, answer->reply.buffer.device_uuid,
			      options->on_device ? &options->device : NULL, &buffer->device);
	if (status == GPUSHARE_E_DEVICE && answer->reply.buffer.backing == GPUSHARE_BACKING_HOST)
		status = device_choose(driver, options->on_device ? options->device : -1,
				       &buffer->device); /* every device reaches host memory */
	if (status)
		return status;
	if (answer->reply.own && answer->reply.buffer.backing == GPUSHARE_BACKING_HOST &&
	    !unified_has(answer->reply.buffer.address - answer->reply.buffer.base_offset,
			 answer->reply.buffer.generation))
		return mapping_own(buffer, answer->reply.buffer.address); /* the preload made it */
	/* With a descriptor, even the owner maps the buffer again, as other processes do. */
	if (answer->reply.own && !backing_is_fd(answer->reply.buffer.backing))
		return mapping_own(buffer, answer->reply.buffer.address);
	return mapping_open(buffer, answer, options);
}

/* An attach_make. */
static int make(struct gpushare_session *session, const struct attach_answer *answer,
		const void *asked, struct gpushare_buffer **out_buffer)
{
	const struct gpushare_attach_options *options = asked;
	_cleanup_free_ struct gpushare_buffer *buffer = NULL;
	int status = attach_check(&answer->reply.buffer);

	if (status)
		return status;
	if (options->same_address && !backing_is_fd(answer->reply.buffer.backing) &&
	    !answer->reply.own)
		return api_fail(
		    GPUSHARE_E_NOT_SUPPORTED,
		    "'%s' is cudaMalloc memory, which the driver maps where it likes; only "
		    "vmm buffers can be had at their owner's address",
		    answer->reply.buffer.name);
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to attach '%s'",
				answer->reply.buffer.name);
	buffer->session = session;
	buffer->count = 1;
	buffer->address = answer->reply.buffer.address;
	buffer->passive = options->passive;
	buffer->read_only = answer->reply.read_only;
	buffer->asked_read_only = options->read_only != 0;
	query_info(&answer->reply.buffer, &buffer->info);
	status = attach_open(buffer, answer, options);
	if (status)
		return status;
	*out_buffer = buffer;
	buffer = NULL;
	return GPUSHARE_OK;
}

/* The registry's answer holds until the name's count, read before the request, changes. Fetching
 * the page of counts pays off from the second attach on. */
static void attach_remember(struct gpushare_buffer *buffer, bool is_watched, uint64_t change)
{
	struct gpushare_session *session = buffer->session;
	bool is_worth_it;

	session_lock(session);
	if (is_watched) {
		buffer->is_watched = true;
		buffer->change = change;
	}
	is_worth_it = !is_watched && buffer->count > 1;
	pthread_mutex_unlock(&session->lock);
	if (is_worth_it && session_try_client(session, session_deadline(session))) {
		client_fetch_changes(session->client);
		session_give_client(session);
	}
}

static int answered(struct gpushare_session *session, const struct attach_answer *answer,
		    const struct gpushare_attach_options *options, attach_make *by, const void *how,
		    struct gpushare_buffer **out_buffer)
{
	struct gpushare_buffer *seen;
	bool misplaced;
	int status;

	session_lock(session);
	seen = attach_seen(session, &answer->reply.buffer, options, &misplaced);
	resync_check(&session->resync, answer->readings);
	pthread_mutex_unlock(&session->lock);
	if (misplaced)
		return attach_misplaced(&answer->reply.buffer);
	if (seen) {
		*out_buffer = seen;
		return GPUSHARE_OK;
	}
	status = by(session, answer, how, &seen);
	return status ? status
		      : attach_publish(seen, &answer->reply.buffer, options, answer->readings,
				       out_buffer);
}

int attach_cold(struct gpushare_session *session, const char *name, uint32_t wait_ms,
		enum attach_kind kind, const struct gpushare_attach_options *options,
		attach_make *by, const void *how, struct gpushare_buffer **out_buffer)
{
	struct attach_answer answer = {.fd = -1};
	struct gpushare_info info;
	int status = attach_register(session, name, wait_ms, kind, &answer);

	if (status)
		return status;
	status = answered(session, &answer, options, by, how, out_buffer);
	fds_close(&answer.fd, answer.fd >= 0);
	if (status) {
		query_info(&answer.reply.buffer, &info);
		session_tell_detach(session, &info, answer.readings);
	}
	return status;
}

API_PUBLIC int gpushare_attach(struct gpushare_session *session, const char *name,
			       const struct gpushare_attach_options *options,
			       struct gpushare_buffer **out_buffer)
{
	API_CALL;
	static const struct gpushare_attach_options defaults;
	struct gpushare_buffer *seen;
	bool is_watched = false;
	uint64_t change = 0;
	int status = api_check_name(name);

	if (!status)
		status = session_check(session);
	if (!status && !out_buffer)
		status = api_fail(GPUSHARE_E_INVALID, "out_buffer is NULL");
	if (!status && options && options->host_only &&
	    (options->same_address || options->on_device))
		status = api_fail(GPUSHARE_E_INVALID,
				  "'%s': host_only gives no device address, so same_address and "
				  "on_device don't go with it",
				  name);
	if (!status)
		status = attach_watch(session, name, &is_watched, &change);
	if (status)
		return status;
	if (!options)
		options = &defaults;
	seen = is_watched ? attach_warm(session, name, options, change) : NULL;
	if (seen) {
		*out_buffer = seen;
	} else {
		status = attach_cold(session, name, options->wait_ms,
				     options->read_only ? ATTACH_READ_ONLY : ATTACH_MEMORY, options,
				     make, options, out_buffer);
		if (!status)
			attach_remember(*out_buffer, is_watched, change);
	}
	if (!status && !options->passive)
		atomic_store(&(*out_buffer)->passive, false);
	return status;
}

int session_end_attached(struct gpushare_buffer *buffer)
{
	struct gpushare_session *session = buffer->session;
	struct gpushare_info info = buffer->info;
	unsigned int readings;
	enum release what = session_release(session, buffer, &readings);
	int status = GPUSHARE_OK;

	if (what == RELEASE_WARM)
		return GPUSHARE_OK;
	if (what == RELEASE_LAST)
		ordering_end(buffer);
	/* Unmap first: once the registry knows, the owner may free. */
	if (what == RELEASE_LAST && buffer->kind == BUFFER_ATTACHED)
		status = mapping_close(buffer);
	if (what == RELEASE_LAST)
		buffer_free(buffer);
	if (what != RELEASE_HELD)
		session_tell_detach(session, &info, readings);
	return status;
}

API_PUBLIC int gpushare_detach(struct gpushare_buffer *buffer)
{
	API_CALL;
	int status;

	if (!buffer)
		return GPUSHARE_OK;
	status = session_check_buffer(buffer);
	if (status)
		return status;
	if (!buffer_is_attached(buffer))
		return api_fail(GPUSHARE_E_INVALID,
				"'%s' was shared by this process; end that with gpushare_free()",
				buffer->info.name);
	return session_end_attached(buffer);
}
