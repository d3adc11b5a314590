/* SPDX-License-Identifier: MIT */
#include "api_resync.h"

#include <stdio.h>
#include <string.h>

#include "api_session.h"
#include "api_source.h"
#include "api_unified.h"
#include "base/cleanup.h"
#include "base/client_held.h"
#include "base/monotonic.h"
#include "cuda/vmm_host.h"

#define PART 8 /* buffers of one Resync: none of its lists holds fewer */

static bool is_own(const struct gpushare_buffer *buffer)
{
	return !buffer_is_attached(buffer);
}

void session_resync_forget(struct gpushare_session *session, const struct gpushare_buffer *buffer)
{
	if (session->resync.at == buffer)
		session->resync.at = buffer->next;
}

void session_resync_check(struct gpushare_session *session, unsigned int readings)
{
	if (session->resync.readings != readings)
		session->resync.stale = true;
}

void session_resync_finish(struct resync *resync)
{
	free(resync->wanted);
	resync->wanted = NULL;
	resync->count = resync->room = 0;
}

/* Where there is no memory for that, it is lost until the next registry. */
static void want(struct resync *resync, uint64_t generation, bool anew)
{
	if (resync->count == resync->room) {
		size_t room = resync->room ? 2 * resync->room : PART;
		struct resync_wanted *grown =
		    realloc(resync->wanted, room * sizeof(*resync->wanted));

		if (!grown)
			return;
		resync->wanted = grown;
		resync->room = room;
	}
	resync->wanted[resync->count++] = (struct resync_wanted){generation, anew};
}

static void begin(struct resync *resync, struct client *client)
{
	client_begin_resyncing(client);
	resync->connection = client->connections;
	resync->goes_on = true;
	resync->round++;
	resync->at = NULL;
	resync->count = 0; /* what one registry asked for, another one may have */
}

/* New ones come in front. */
static struct gpushare_buffer *next_untold(struct gpushare_session *session)
{
	struct resync *resync = &session->resync;
	struct gpushare_buffer *at = resync->at ? resync->at : session->buffers;

	while (at && (at->told == resync->round || at->lost))
		at = at->next;
	if (at)
		at->told = resync->round;
	resync->at = at ? at->next : NULL;
	return at;
}

static void add_hold(const struct gpushare_buffer *buffer, gpushare_Hold *list, pb_size_t *count)
{
	gpushare_Hold *hold = &list[(*count)++];

	memcpy(hold->name, buffer->info.name, sizeof(hold->name));
	hold->generation = buffer->info.generation;
	hold->count = buffer->count + buffer->owed;
}

/* With and without CUDA it may be attached, and the registry counts both as one. */
static void add_attached(struct gpushare_session *session, const struct gpushare_buffer *buffer,
			 gpushare_Resync *part)
{
	gpushare_Hold *hold = &part->attached[part->attached_count];

	add_hold(buffer, part->attached, &part->attached_count);
	for (struct gpushare_buffer *other = session->buffers; other; other = other->next) {
		if (other == buffer || is_own(other) ||
		    other->info.generation != hold->generation ||
		    strcmp(other->info.name, hold->name) != 0)
			continue;
		hold->count += other->count + other->owed;
		other->told = session->resync.round;
	}
}

/* True: that was the last part. */
static bool fill_part(struct gpushare_session *session, bool old, gpushare_Resync *part)
{
	struct gpushare_buffer *buffer;
	size_t count = 0;

	session->resync.readings++;
	while (count < PART && (buffer = next_untold(session))) {
		count++;
		if (old && is_own(buffer))
			want(&session->resync, buffer->info.generation, true);
		else if (is_own(buffer))
			add_hold(buffer, part->shared, &part->shared_count);
		else
			add_attached(session, buffer, part);
	}
	return count < PART;
}

static int tell_part(struct gpushare_session *session, bool old, int64_t deadline_ms,
		     bool *out_last)
{
	struct client *client = session->client;
	const gpushare_ResyncReply *answer = &client->reply.body.resync;
	gpushare_Resync *part = &client->aside.verb.resync;
	int status;

	memset(&client->aside, 0, sizeof(client->aside));
	client->aside.which_verb = gpushare_Request_resync_tag;
	session_lock(session);
	part->last = *out_last = fill_part(session, old, part);
	pthread_mutex_unlock(&session->lock);
	if (old)
		return GPUSHARE_OK;
	if (part->last)
		client_tell_rest(client, part);
	status = client_ask_aside(client, deadline_ms);
	if (status != GPUSHARE_OK || client->reply.which_body != gpushare_Reply_resync_tag)
		return status;
	session_lock(session);
	for (pb_size_t i = 0; i < answer->wanted_count; i++)
		want(&session->resync, answer->wanted[i], false);
	pthread_mutex_unlock(&session->lock);
	return status;
}

/* Half of the time is for what the call is there for. What the registry refuses to hear, it won't
 * hear the next time either. */
int session_resync(struct client *client, void *owner, int64_t deadline_ms)
{
	struct gpushare_session *session = owner;
	struct resync *resync = &session->resync;
	int64_t now = monotonic_ms(), until_ms = now + (deadline_ms - now) / 2;
	bool moved = resync->connection != client->connections, old = !client_has_session(client);
	bool last = old && !moved && !resync->goes_on; /* it knows the names already */
	int status = GPUSHARE_OK;

	if (!last && (moved || !resync->goes_on)) {
		session_lock(session);
		begin(resync, client);
		pthread_mutex_unlock(&session->lock);
	}
	while (!last && monotonic_ms() < until_ms) {
		status = tell_part(session, old, deadline_ms, &last);
		if (status != GPUSHARE_OK && client_is_silent(client)) {
			resync->goes_on = false; /* from its beginning on, the next time */
			return status;
		}
		last |= status != GPUSHARE_OK;
	}
	if (last) {
		resync->goes_on = false;
		client_end_resyncing(client);
	}
	return GPUSHARE_OK;
}

/* Under the lock. What is shared, before what is attached of it. */
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
	if (found)
		*out_copy = *found;
	pthread_mutex_unlock(&session->lock);
	return found != NULL;
}

static bool take_wanted(struct gpushare_session *session, struct resync_wanted *out)
{
	bool any;

	session_lock(session);
	any = session->resync.count != 0;
	if (any)
		*out = session->resync.wanted[--session->resync.count];
	pthread_mutex_unlock(&session->lock);
	return any;
}

/* What was imported is exported no more: its descriptor is held, or it can't be had. The memory of
 * others can be brought back only where it is kept without them. */
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

/* With what is left of the time. */
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
	if (status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT)
		client_tell_anew(client);
	session_give_client(session);
	return status;
}

static void rename_to(struct gpushare_buffer *buffer, uint64_t generation)
{
	if (buffer->info.backing == GPUSHARE_BACKING_HOST)
		unified_rename(buffer->mapping.pointer, buffer->info.generation, generation);
	buffer->info.generation = generation;
}

/* The registry has it again, or has not. What was freed meanwhile, it is to have no longer. */
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

static bool is_transport(int status)
{
	return status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT;
}

/* What was exported is what it was taken for if it is not freed even then: a handle may be another's
 * as soon as it is. False: no more of this now. */
static bool share_one(struct gpushare_session *session, const struct resync_wanted *wanted,
		      int64_t until_ms)
{
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
		if (ask.verb.share.orphan) /* it was attached before its owner showed it */
			ask.verb.share.buffer.flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
		if (status == GPUSHARE_OK)
			status = ask_again(session, &ask, source.fd, until_ms, &generation);
		if (!is_transport(status))
			settle(session, &copy, status, generation);
	}
	source_finish(&source);
	return !is_transport(status);
}

/* One thread at a time. No call is begun without time for its answer. */
void session_share_wanted(struct gpushare_session *session, int64_t until_ms)
{
	int64_t last_ms = until_ms - session->timeout_ms / 4;
	struct resync_wanted wanted;
	char why[API_SENTENCE_MAX];
	bool mine;

	session_lock(session);
	mine = session->resync.count && !session->resync.busy;
	session->resync.busy |= mine;
	pthread_mutex_unlock(&session->lock);
	if (!mine)
		return;
	snprintf(why, sizeof(why), "%s", gpushare_explain());
	while (monotonic_ms() < last_ms && take_wanted(session, &wanted) &&
	       share_one(session, &wanted, until_ms))
		;
	session_lock(session);
	session->resync.busy = false;
	pthread_mutex_unlock(&session->lock);
	api_fail(GPUSHARE_OK, "%s", why);
}
