/* SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "api_session.h"
#include "api_share.h"
#include "api_used.h"
#include "base/cleanup.h"
#include "base/client_held.h"
#include "base/monotonic.h"

static bool is_own(const struct gpushare_buffer *buffer)
{
	return !buffer_is_attached(buffer);
}

static bool list(struct resync *resync)
{
	struct gpushare_session *session = resync->owner;
	bool added = true;

	session_lock(session);
	for (const struct gpushare_buffer *buffer = session->buffers; buffer;
	     buffer = buffer->next) {
		const struct resync_ref ref = {
		    .generation = buffer->info.generation,
		    .attached = !is_own(buffer),
		};

		added = added && (buffer->lost || resync_add(resync, &ref));
	}
	pthread_mutex_unlock(&session->lock);
	return added;
}

/* The session may have attached it both with and without CUDA; the registry keeps one count for
 * both. */
static bool hold(struct resync *resync, const struct resync_ref *ref, gpushare_Hold *out_hold)
{
	struct gpushare_session *session = resync->owner;
	const struct gpushare_buffer *buffer;

	out_hold->count = 0;
	session_lock(session);
	for (buffer = session->buffers; buffer; buffer = buffer->next) {
		if (buffer->info.generation != ref->generation || buffer->lost ||
		    is_own(buffer) == ref->attached)
			continue;
		memcpy(out_hold->name, buffer->info.name, sizeof(out_hold->name));
		out_hold->count += buffer->count + buffer->owed;
	}
	pthread_mutex_unlock(&session->lock);
	return out_hold->count;
}

/* Under the lock. If the session has both shared and attached it, return the shared buffer. */
static struct gpushare_buffer *find(const struct gpushare_session *session, uint64_t generation)
{
	struct gpushare_buffer *found = NULL;

	for (struct gpushare_buffer *buffer = session->buffers; buffer; buffer = buffer->next)
		if (buffer->info.generation == generation && !buffer->lost &&
		    (!found || is_own(buffer)))
			found = buffer;
	return found;
}

static bool copy_of(struct gpushare_session *session, uint64_t generation,
		    struct gpushare_buffer *out_copy)
{
	const struct gpushare_buffer *found;

	session_lock(session);
	found = find(session, generation);
	if (found) {
		*out_copy = *found;
		if (found->whole)
			out_copy->mapping.held = found->whole->mapping.held;
	}
	pthread_mutex_unlock(&session->lock);
	return found != NULL;
}

/* The driver can't export imported memory again, so its held descriptor is used, if there is one.
 * Memory of another process can be shared again only if it has the KEEP flag. */
static int export_again(const struct gpushare_buffer *buffer, struct source *source)
{
	bool kept = buffer->info.flags & GPUSHARE_FLAG_KEEP;
	bool unified = buffer->info.backing == GPUSHARE_BACKING_HOST;

	*source = (struct source){
	    .pointer = buffer->pointer,
	    .size = buffer->info.size,
	    .device = buffer->device,
	    .context = buffer->context,
	    .fd = -1,
	};
	if (!kept && !is_own(buffer))
		return GPUSHARE_E_NOT_SHAREABLE;
	source->handle = buffer->handle;
	if (buffer_is_event(buffer))
		return GPUSHARE_OK;
	if (unified && !buffer->host_only)
		vmm_host_export(buffer->session->driver, &buffer->mapping, &source->fd);
	else
		source->fd = held_open(buffer->mapping.held);
	if (source->fd >= 0)
		return GPUSHARE_OK;
	return !unified && is_own(buffer) && !buffer->mapping.held
		   ? source_export(buffer->session->driver, source)
		   : GPUSHARE_E_NOT_SHAREABLE;
}

static int ask_again(struct gpushare_session *session, const request *ask, int fd, int64_t until_ms,
		     uint64_t *out_generation)
{
	struct client *client = session->client;
	int status;

	if (!session_try_client(session, until_ms))
		return GPUSHARE_E_TIMED_OUT;
	client->request = *ask;
	client->goes = fd;
	status = client_call(client, 0);
	if (status == GPUSHARE_OK)
		*out_generation = client->reply.body.share.generation;
	session_give_client(session);
	return status;
}

static void rename_to(struct gpushare_buffer *buffer, uint64_t generation)
{
	if (buffer->info.backing == GPUSHARE_BACKING_HOST)
		used_rename(buffer->mapping.pointer, buffer->info.generation, generation);
	buffer->info.generation = generation;
	buffer->session->attached++;
}

/* Record whether the registry has the buffer again. If the buffer was freed meanwhile, withdraw
 * what was just shared. */
static void settle(struct gpushare_session *session, struct gpushare_buffer *copy, int status,
		   uint64_t generation)
{
	struct gpushare_buffer *found;

	session_lock(session);
	found = find(session, copy->info.generation);
	if (found && is_own(found) && status != GPUSHARE_OK)
		found->lost = true;
	else if (found)
		rename_to(found, generation);
	pthread_mutex_unlock(&session->lock);
	if (found || status != GPUSHARE_OK || !is_own(copy))
		return;
	copy->info.generation = generation;
	session_tell_withdraw(session, &copy->info);
}

/* Look the buffer up again after the export. If it was freed by then, its handle may belong to
 * other memory. False: the registry did not answer, and the rest is left for a later call. */
static bool share(struct resync *resync, const struct resync_ref *wanted, int64_t until_ms)
{
	struct gpushare_session *session = resync->owner;
	uint64_t generation = wanted->generation;
	struct gpushare_buffer copy, now;
	struct source source;
	request ask = {.which_verb = gpushare_Request_share_tag};
	int status;

	if (!copy_of(session, wanted->generation, &copy))
		return true;
	status = export_again(&copy, &source);
	if (copy_of(session, wanted->generation, &now)) {
		if (!is_own(&copy))
			share_keep_rights(&copy);
		share_describe(&copy, &ask.verb.share);
		memcpy(ask.verb.share.handle, &source.handle, sizeof(ask.verb.share.handle));
		ask.verb.share.again = wanted->anew ? 0 : wanted->generation;
		ask.verb.share.orphan = !is_own(&copy);
		if (ask.verb.share
			.orphan) /* the flag may be left from an attach before gpushare_commit() */
			ask.verb.share.buffer.flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
		if (status == GPUSHARE_OK)
			status = ask_again(session, &ask, source.fd, until_ms, &generation);
		if (!status_is_unheard(status))
			settle(session, &copy, status, generation);
	}
	source_finish(&source);
	return !status_is_unheard(status);
}

const struct resync_calls session_resync_calls = {
    .list = list,
    .hold = hold,
    .share = share,
};

void session_share_wanted(struct gpushare_session *session, int64_t until_ms)
{
	char why[API_SENTENCE_MAX];

	if (!resync_wants(&session->resync))
		return;
	snprintf(why, sizeof(why), "%s", gpushare_explain());
	resync_share(&session->resync, until_ms, session->timeout_ms);
	api_fail(GPUSHARE_OK, "%s", why);
}
