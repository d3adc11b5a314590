/* SPDX-License-Identifier: MIT */
#include "api_session.h"
#include "api_used.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/monotonic.h"

struct attaching_one {
	struct gpushare_buffer *buffer; /* NULL: not attached so far */
	/* The name's count of changes, read before the request was sent, if the page of counts
	 * exists. The registry's answer holds until the count grows. */
	bool is_watched;
	uint64_t change;
};

/* The names of one call. */
struct attaching {
	struct gpushare_session *session;
	const char *const *names;
	const struct attach_way *way;
	struct attaching_one *each;
	int64_t deadline_ms;	     /* of way->wait_ms */
	struct attach_answer answer; /* for the current name */
	bool failed;		     /* a name was not attached */
};

/* Read the name's count of changes. `fetch`: fetch the page of counts if there is none. */
static void attach_watch(struct gpushare_session *session, const char *name, bool fetch,
			 struct attaching_one *one)
{
	one->is_watched = false;
	if (!(fetch ? session_try_client(session, session_deadline(session))
		    : session_look_client(session)))
		return; /* the next request fails for the same reason */
	if (fetch)
		client_fetch_changes(session->client);
	one->is_watched = client_read_changes(session->client, name, &one->change);
	session_give_client(session);
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

/* Find a buffer that this session has attached, and whose name has not changed since the registry's
 * answer. Count it once more here, without asking the registry. If it is detached, but the registry
 * doesn't know (`owed`), continue that attachment. NULL: ask the registry. */
static struct gpushare_buffer *attach_warm(struct gpushare_session *session, const char *name,
					   const struct gpushare_attach_options *options,
					   uint64_t change)
{
	struct gpushare_buffer *seen;

	if (options->same_address)
		return NULL;
	pthread_mutex_lock(&session->lock);
	DL_FOREACH (session->buffers, seen) {
		if (attach_is_current(seen, name, options, change))
			break;
	}
	if (seen && seen->count) {
		seen->warm++;
	} else if (seen) {
		seen->count = 1;
		seen->owed = false;
	}
	pthread_mutex_unlock(&session->lock);
	return seen;
}

/* The owner's process has sent this data, so check it as far as possible. */
static int attach_check(const record *from)
{
	if (!backing_is_known(from->backing))
		return api_fail(GPUSHARE_E_NOT_SUPPORTED,
				"'%s' has backing %" PRIu32 ", which gpushare %s does not support",
				from->name, from->backing, GPUSHARE_VERSION);
	if (!from->size || !span_fits(from->base_offset, from->size, from->base_size))
		return api_fail(GPUSHARE_E_PROTOCOL,
				"the registry's record of '%s' is invalid: %" PRIu64
				" bytes at offset %" PRIu64 " of an allocation of %" PRIu64
				" bytes; share it again",
				from->name, from->size, from->base_offset, from->base_size);
	return GPUSHARE_OK;
}

/* The record's buffer if this session has it, counted once more; else NULL. The caller holds the
 * lock. E_ADDRESS_TAKEN: `options` require the owner's address, and the buffer is at another; then
 * it is not counted. */
static struct gpushare_buffer *attach_seen(struct gpushare_session *session, const record *from,
					   const struct gpushare_attach_options *options,
					   int *out_status)
{
	struct gpushare_buffer *seen;

	*out_status = GPUSHARE_OK;
	DL_FOREACH (session->buffers, seen) {
		/* Compare the generation first: it rules out most, at one cache line a buffer. */
		if (seen->info.generation != from->generation || !buffer_is_attached(seen) ||
		    !attach_is_alike(seen, options) || strcmp(seen->info.name, from->name))
			continue;
		if (options->same_address && seen->pointer != from->address)
			*out_status = api_fail(
			    GPUSHARE_E_ADDRESS_TAKEN,
			    "'%s' is already attached here, but not at its owner's address, "
			    "0x%" PRIx64 "; detach it first",
			    from->name, from->address);
		else
			seen->count++;
		break;
	}
	return seen;
}

/* Two threads may map the same buffer at once; the first struct stays and the other is freed.
 * `attached`: session->attached when the session did not have the buffer. */
static int attach_publish(struct gpushare_buffer *buffer, const struct attach_answer *answer,
			  const struct gpushare_attach_options *options, uint64_t attached,
			  struct gpushare_buffer **out_buffer)
{
	struct gpushare_session *session = buffer->session;
	struct gpushare_buffer *seen = NULL;
	int status = GPUSHARE_OK;

	pthread_mutex_lock(&session->lock);
	resync_check(&session->resync, answer->got.readings);
	if (session->attached != attached)
		seen = attach_seen(session, &answer->reply.buffer, options, &status);
	if (!seen) {
		DL_PREPEND(session->buffers, buffer);
		session->attached++;
	}
	pthread_mutex_unlock(&session->lock);
	if (seen) {
		API_KEEP_SENTENCE;

		if (buffer->kind == BUFFER_ATTACHED)
			mapping_close(buffer);
		buffer_free(buffer);
	}
	if (!status)
		*out_buffer = seen ? seen : buffer;
	return status;
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
	    !used_take(answer->reply.buffer.address - answer->reply.buffer.base_offset,
		       answer->reply.buffer.generation, NULL))
		return mapping_own(buffer, answer->reply.buffer.address); /* made by the preload */
	/* With a descriptor, even the owner maps the buffer again, as other processes do. */
	if (answer->reply.own && !backing_is_fd(answer->reply.buffer.backing))
		return mapping_own(buffer, answer->reply.buffer.address);
	return mapping_open(buffer, answer, options);
}

/* The attach_make of memory. */
static int make(struct gpushare_buffer *buffer, const struct attach_answer *answer,
		const void *asked)
{
	const struct gpushare_attach_options *options = asked;
	const record *from = &answer->reply.buffer;
	int status = attach_check(from);

	if (status)
		return status;
	if (options->same_address && !backing_is_fd(from->backing) && !answer->reply.own)
		return api_fail(
		    GPUSHARE_E_NOT_SUPPORTED,
		    "'%s' is cudaMalloc memory, whose address the driver chooses; only vmm and "
		    "unified buffers can be attached at their owner's address",
		    from->name);
	buffer->address = from->address;
	buffer->passive = options->passive;
	buffer->read_only = answer->reply.read_only;
	buffer->asked_read_only = options->read_only != 0;
	return attach_open(buffer, answer, options);
}

/* Fetching the page of counts pays off from the second attach on. */
static void attach_remember(const struct attaching_one *one)
{
	struct gpushare_buffer *buffer = one->buffer;
	struct gpushare_session *session = buffer->session;
	bool is_worth_it;

	pthread_mutex_lock(&session->lock);
	if (one->is_watched) {
		buffer->is_watched = true;
		buffer->change = one->change;
	}
	is_worth_it = !one->is_watched && buffer->count > 1;
	pthread_mutex_unlock(&session->lock);
	if (is_worth_it && session_try_client(session, session_deadline(session))) {
		client_fetch_changes(session->client);
		session_give_client(session);
	}
}

static int answered(struct gpushare_session *session, const struct attach_answer *answer,
		    const struct attach_way *way, struct gpushare_buffer **out_buffer)
{
	const record *from = &answer->reply.buffer;
	struct gpushare_buffer *buffer;
	uint64_t attached;
	int status;

	pthread_mutex_lock(&session->lock);
	buffer = attach_seen(session, from, way->options, &status);
	attached = session->attached;
	resync_check(&session->resync, answer->got.readings);
	pthread_mutex_unlock(&session->lock);
	if (buffer) {
		if (!status)
			*out_buffer = buffer;
		return status;
	}
	buffer = calloc(1, sizeof(*buffer));
	if (!buffer)
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to attach '%s'", from->name);
	buffer->session = session;
	buffer->count = 1;
	codec_read_info(from, &buffer->info);
	status = way->make(buffer, answer, way->make_options);
	if (!status)
		return attach_publish(buffer, answer, way->options, attached, out_buffer);
	free(buffer);
	return status;
}

static void attach_request(const char *name, enum attach_kind kind, request *out_request)
{
	*out_request = (request){.which_verb = gpushare_Request_attach_tag};
	memcpy(out_request->verb.attach.name, name, strlen(name) + 1);
	out_request->verb.attach.event = kind == ATTACH_EVENT;
	out_request->verb.attach.read_only = kind == ATTACH_READ_ONLY;
}

static int attach_ask(struct attaching *all, const char *name)
{
	request ask;

	attach_request(name, all->way->kind, &ask);
	return session_ask_passing(all->session, &ask, BODY(attach, &all->answer.reply), -1,
				   &all->answer.got);
}

/* Wait for a name that was not found. After the wait, the name may be withdrawn or the registry
 * replaced before this thread attaches: then wait again. Wait again also if too many requests wait
 * at the registry. */
static int attach_await(struct attaching *all, const char *name)
{
	const struct gpushare_session *session = all->session;
	const struct client_options options = {
	    .directory = session->client->directory,
	    .who = "api wait",
	    .timeout_ms = session->timeout_ms,
	};
	char why[API_SENTENCE_MAX];
	int status = GPUSHARE_E_NOT_FOUND;

	while (status == GPUSHARE_E_NOT_FOUND || status == GPUSHARE_E_NO_REGISTRY) {
		int64_t now = monotonic_ms();

		if (now >= all->deadline_ms)
			return api_fail(GPUSHARE_E_TIMED_OUT, "'%s' did not appear within %u ms",
					name, all->way->wait_ms);
		status = client_await_name(&options, name, (uint32_t)(all->deadline_ms - now), why,
					   sizeof(why));
		api_excuse(api_waited_ms); /* the wait has a limit of its own */
		status = !status || status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_LIMIT
			     ? attach_ask(all, name)
			     : api_fail(status, "%s", why);
	}
	return status;
}

/* False: the session has the buffer, so no request is needed. */
static bool attach_begin(void *user, size_t index, request *out_request)
{
	const struct attaching *all = user;
	const char *name = all->names[index];
	struct attaching_one *one = &all->each[index];

	attach_watch(all->session, name, all->way->kind == ATTACH_EVENT, one);
	if (one->is_watched)
		one->buffer = attach_warm(all->session, name, all->way->options, one->change);
	if (one->buffer)
		return false;
	attach_request(name, all->way->kind, out_request);
	return true;
}

static int attach_end(void *user, size_t index, const struct session_answer *got)
{
	struct attaching *all = user;
	struct attaching_one *one = &all->each[index];
	struct attach_answer *answer = &all->answer;
	int status = got->status;

	answer->got = *got;
	if (status == GPUSHARE_E_NOT_FOUND && all->way->wait_ms && !all->failed)
		status = attach_await(all, all->names[index]);
	if (!status) {
		status = all->failed ? GPUSHARE_E_CANCELLED /* an earlier name failed */
				     : answered(all->session, answer, all->way, &one->buffer);
		fds_close(&answer->got.fd, answer->got.fd >= 0);
		if (status)
			session_tell_detach(all->session, answer->reply.buffer.name,
					    answer->reply.buffer.generation, answer->got.readings);
		else
			attach_remember(one);
	}
	all->failed |= status != GPUSHARE_OK;
	return status;
}

int attach_all(struct gpushare_session *session, const char *const *names, size_t count,
	       const struct attach_way *way, struct gpushare_buffer **out_buffers)
{
	struct attaching_one one = {.buffer = NULL};
	_cleanup_free_ struct attaching_one *more = NULL;
	struct attaching all;
	const struct session_many many = {
	    .body = BODY(attach, &all.answer.reply),
	    .make = attach_begin,
	    .take = attach_end,
	    .user = &all,
	};
	int status;

	if (count > 1 && !(more = calloc(count, sizeof(*more))))
		return api_fail(GPUSHARE_E_NO_MEMORY, "no memory to attach %zu buffers", count);
	all.session = session;
	all.names = names;
	all.way = way;
	all.each = more ? more : &one;
	all.failed = false;
	/* + 1, because monotonic_ms() rounds down */
	all.deadline_ms = way->wait_ms ? monotonic_ms() + 1 + way->wait_ms : 0;
	status = session_ask_many(session, &many, count);
	if (status) {
		API_KEEP_SENTENCE;

		for (size_t i = 0; i < count; i++)
			if (all.each[i].buffer)
				session_end_attached(all.each[i].buffer);
		return status;
	}
	for (size_t i = 0; i < count; i++) {
		out_buffers[i] = all.each[i].buffer;
		if (!way->options->passive)
			atomic_store(&out_buffers[i]->passive, false);
	}
	return GPUSHARE_OK;
}

static int attach_check_call(const struct gpushare_session *session, const char *const *names,
			     size_t count, const struct gpushare_attach_options *options,
			     struct gpushare_buffer *const *out_buffers)
{
	int status = session_check(session);

	if (!status && count && !names)
		status = api_fail(GPUSHARE_E_INVALID, "names is NULL");
	for (size_t i = 0; !status && i < count; i++)
		status = api_check_name(names[i]);
	if (!status && count && !out_buffers)
		status = api_fail(GPUSHARE_E_INVALID, "out_buffers is NULL");
	if (!status && count && options->host_only && (options->same_address || options->on_device))
		status = api_fail(GPUSHARE_E_INVALID,
				  "'%s': host_only gives no device address, so it excludes "
				  "same_address and on_device",
				  names[0]);
	return status;
}

API_PUBLIC int gpushare_attach_many(struct gpushare_session *session, const char *const *names,
				    size_t count, const struct gpushare_attach_options *options,
				    struct gpushare_buffer **out_buffers)
{
	API_CALL;
	static const struct gpushare_attach_options defaults;
	const struct gpushare_attach_options *with = options ? options : &defaults;
	const struct attach_way way = {
	    .kind = with->read_only ? ATTACH_READ_ONLY : ATTACH_MEMORY,
	    .options = with,
	    .make = make,
	    .make_options = with,
	    .wait_ms = with->wait_ms,
	};
	int status = attach_check_call(session, names, count, with, out_buffers);

	return status ? status : attach_all(session, names, count, &way, out_buffers);
}

API_PUBLIC int gpushare_attach(struct gpushare_session *session, const char *name,
			       const struct gpushare_attach_options *options,
			       struct gpushare_buffer **out_buffer)
{
	return gpushare_attach_many(session, &name, 1, options, out_buffer);
}

int session_end_attached(struct gpushare_buffer *buffer)
{
	struct gpushare_session *session = buffer->session;
	const struct gpushare_info info = buffer->info;
	unsigned int readings;
	enum release what = session_release(session, buffer, &readings);
	int status = GPUSHARE_OK;

	if (what == RELEASE_WARM)
		return GPUSHARE_OK;
	/* Unmap first: once the registry knows of the detach, the owner may free the memory. */
	if (what == RELEASE_LAST && buffer->kind == BUFFER_ATTACHED)
		status = mapping_close(buffer);
	if (what == RELEASE_LAST)
		buffer_free(buffer);
	if (what != RELEASE_HELD)
		session_tell_detach(session, info.name, info.generation, readings);
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
