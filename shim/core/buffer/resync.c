/* SPDX-License-Identifier: MIT */
#include "resync.h"

#include <stdlib.h>
#include <string.h>

#include "base/monotonic.h"
#include "base/shim_lock.h"

#define PART 8 /* buffers per Resync message: both of its lists have room for that many */

static bool put(struct resync_list *list, const struct resync_ref *ref)
{
	if (list->count == list->room) {
		size_t room = list->room ? 2 * list->room : PART;
		struct resync_ref *grown = realloc(list->refs, room * sizeof(*grown));

		if (!grown)
			return false;
		list->refs = grown;
		list->room = room;
	}
	list->refs[list->count++] = *ref;
	return true;
}

static void empty(struct resync_list *list)
{
	free(list->refs);
	*list = (struct resync_list){.refs = NULL};
}

bool resync_add(struct resync *resync, const struct resync_ref *ref)
{
	return put(&resync->told, ref);
}

void resync_miss(struct resync *resync)
{
	atomic_store_explicit(&resync->missed, true, memory_order_release);
}

void resync_check(struct resync *resync, unsigned int readings)
{
	if (resync_is_read(resync, readings))
		resync_miss(resync);
}

bool resync_missed(struct resync *resync)
{
	return atomic_exchange_explicit(&resync->missed, false, memory_order_acq_rel);
}

/* resync_share() sets `sharing` before it takes a buffer from `wanted`, and `missed` before it
 * clears `sharing`. So the order of these reads matters. */
bool resync_is_pending(const struct resync *resync)
{
	return atomic_load(&resync->goes_on) || resync_wants(resync) ||
	       atomic_load(&resync->sharing) || atomic_load(&resync->missed);
}

static void count_reading(struct resync *resync)
{
	atomic_fetch_add_explicit(&resync->readings, 1, memory_order_acq_rel);
}

/* If the list can't grow, everything is reported again. */
static void want(struct resync *resync, const struct resync_ref *ref, bool anew)
{
	struct resync_ref wanted = *ref;
	bool noted = false;

	wanted.anew = anew;
	if (lock_take(&resync->lock)) {
		noted = put(&resync->wanted, &wanted);
		atomic_store_explicit(&resync->wants, resync->wanted.count, memory_order_release);
		pthread_mutex_unlock(&resync->lock);
	}
	if (!noted)
		resync_miss(resync);
}

static bool take_wanted(struct resync *resync, struct resync_ref *out)
{
	struct resync_list *wanted = &resync->wanted;
	bool any;

	if (!lock_take(&resync->lock))
		return false;
	any = wanted->count;
	if (any)
		*out = wanted->refs[--wanted->count];
	if (!wanted->count)
		empty(wanted);
	atomic_store_explicit(&resync->wants, wanted->count, memory_order_release);
	pthread_mutex_unlock(&resync->lock);
	return any;
}

static bool forget_wanted(struct resync *resync)
{
	if (!lock_take(&resync->lock))
		return false;
	empty(&resync->wanted);
	atomic_store_explicit(&resync->wants, 0, memory_order_release);
	pthread_mutex_unlock(&resync->lock);
	return true;
}

/* Forget what the previous registry wanted: the new one will say what it wants. */
static bool begin(struct resync *resync, struct client *client)
{
	bool listed;

	resync->told.count = resync->at = 0;
	resync->goes_on = false;
	if (!forget_wanted(resync))
		return false;
	count_reading(resync);
	listed = resync->calls->list(resync);
	count_reading(resync);
	if (!listed)
		return false;
	client_begin_resyncing(client);
	resync->connection = client->connections;
	resync->goes_on = true;
	return true;
}

static void end(struct resync *resync, struct client *client)
{
	empty(&resync->told);
	resync->at = 0;
	resync->goes_on = false;
	client_end_resyncing(client);
}

/* A buffer whose Share was not answered (generation 0) is left out. If the registry has that
 * buffer, it removes the buffer after the last part. */
static void add_hold(struct resync *resync, const struct resync_ref *ref, gpushare_Resync *part)
{
	gpushare_Hold *hold = ref->attached ? &part->attached[part->attached_count]
					    : &part->shared[part->shared_count];

	hold->generation = ref->generation;
	hold->count = !ref->attached;
	if (!ref->generation || !resync->calls->hold(resync, ref, hold))
		memset(hold, 0, sizeof(*hold));
	else if (ref->attached)
		part->attached_count++;
	else
		part->shared_count++;
}

static bool is_wanted(const gpushare_ResyncReply *answer, uint64_t generation)
{
	for (pb_size_t i = 0; i < answer->wanted_count; i++)
		if (answer->wanted[i] == generation)
			return true;
	return false;
}

static int tell_part(struct resync *resync, struct client *client, int64_t deadline_ms)
{
	const struct resync_ref *refs = resync->told.refs + resync->at;
	size_t left = resync->told.count - resync->at, count = left < PART ? left : PART;
	gpushare_Resync *part = &client->aside.verb.resync;
	int status;

	memset(&client->aside, 0, sizeof(client->aside));
	client->aside.which_verb = gpushare_Request_resync_tag;
	count_reading(resync);
	for (size_t i = 0; i < count; i++)
		add_hold(resync, &refs[i], part);
	count_reading(resync);
	part->last = count < PART; /* a part that isn't full has room for client_tell_rest() */
	if (part->last)
		client_tell_rest(client, part);
	status = client_ask_aside(client, deadline_ms);
	if (status != GPUSHARE_OK)
		return status;
	resync->at += count;
	for (size_t i = 0; i < count; i++) {
		if (!refs[i].generation)
			want(resync, &refs[i], true);
		else if (client->reply.which_body == gpushare_Reply_resync_tag &&
			 is_wanted(&client->reply.body.resync, refs[i].generation))
			want(resync, &refs[i], false);
	}
	if (count < PART)
		end(resync, client);
	return GPUSHARE_OK;
}

/* The client's resync callback. It begins no part in the second half of the call's time: that is
 * for the call's own request. */
static int tell(struct client *client, void *owner, int64_t deadline_ms)
{
	struct resync *resync = owner;
	int64_t now = monotonic_ms(), until_ms = now + (deadline_ms - now) / 2;

	if ((resync->connection != client->connections || !resync->goes_on) &&
	    !begin(resync, client))
		return GPUSHARE_OK;
	do {
		int status = tell_part(resync, client, deadline_ms);

		if (status != GPUSHARE_OK && client_is_silent(client)) {
			resync->goes_on = false; /* the next call starts from the beginning */
			empty(&resync->told);
			return status;
		}
		if (status != GPUSHARE_OK) { /* the registry would reject it the next time too */
			if (resync->calls->refused)
				resync->calls->refused(client->why);
			end(resync, client);
		}
	} while (resync->goes_on && monotonic_ms() < until_ms);
	return GPUSHARE_OK;
}

void resync_by(struct resync *resync, const struct resync_calls *calls, struct client *client)
{
	resync->calls = calls;
	client_resync_by(client, tell, resync);
}

void resync_finish(struct resync *resync)
{
	empty(&resync->told);
	empty(&resync->wanted);
}

/* Begins no share in the last quarter of `timeout_ms`: the registry's answer needs that time. */
void resync_share(struct resync *resync, int64_t until_ms, unsigned int timeout_ms)
{
	int64_t last_ms = until_ms - timeout_ms / 4;
	struct resync_ref wanted;

	if (!resync_wants(resync) || atomic_exchange(&resync->sharing, true))
		return;
	while (monotonic_ms() < last_ms && take_wanted(resync, &wanted)) {
		if (resync->calls->share(resync, &wanted, until_ms))
			continue;
		resync_miss(resync);
		break;
	}
	atomic_store(&resync->sharing, false);
}
