/* SPDX-License-Identifier: MIT */
#include "shim_resync.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/monotonic.h"
#include "shim_async.h"
#include "shim_describe.h"
#include "shim_link.h"
#include "base/shim_lock.h"
#include "shim_lookup.h"
#include "shim_objects.h"
#include "shim_pages.h"
#include "shim_process.h"
#include "cuda/shim_scope.h"
#include "shim_state.h"

#define PART 8 /* entries of one Resync: none of its lists holds fewer */

/* What the registry does not have, or not the memory of. */
struct wanted {
	uint64_t generation, pointer;
	cu_mem_handle handle; /* without a pointer: of an object */
	bool anew;	      /* by a registry that does not know what was before it */
};

/* Of whose turn on the line it is. */
static struct {
	unsigned int
	    connection;	     /* that is being told, or was: of the first there is nothing to tell */
	atomic_bool goes_on; /* which others look at */
	struct live part[PART];
} telling = {.connection = 1};

static struct {
	pthread_mutex_t lock; /* for a few instructions */
	struct wanted *list;
	size_t room;
	atomic_size_t count;
	atomic_flag sharing;
} wants = {.lock = PTHREAD_MUTEX_INITIALIZER, .sharing = ATOMIC_FLAG_INIT};

/* Where there is no memory for that, all is told once more. */
static void want(const struct live *entry, bool anew)
{
	size_t count;

	if (!lock_take(&wants.lock)) {
		live_miss();
		return;
	}
	count = atomic_load_explicit(&wants.count, memory_order_relaxed);
	if (count == wants.room) {
		size_t room = count ? 2 * count : PART;
		struct wanted *grown = realloc(wants.list, room * sizeof(*grown));

		if (grown) {
			wants.list = grown;
			wants.room = room;
		}
	}
	if (count < wants.room) {
		wants.list[count++] = (struct wanted){
		    .generation = entry->generation,
		    .pointer = entry->pointer,
		    .handle = entry->mapping.handle,
		    .anew = anew,
		};
		atomic_store_explicit(&wants.count, count, memory_order_release);
	} else {
		live_miss();
	}
	pthread_mutex_unlock(&wants.lock);
}

static bool take_wanted(struct wanted *out)
{
	bool any = false;
	size_t count;

	if (!lock_take(&wants.lock))
		return false;
	count = atomic_load_explicit(&wants.count, memory_order_relaxed);
	if (count) {
		*out = wants.list[count - 1];
		atomic_store_explicit(&wants.count, count - 1, memory_order_release);
		any = true;
	}
	pthread_mutex_unlock(&wants.lock);
	return any;
}

static void forget_wanted(void)
{
	if (!lock_take(&wants.lock))
		return;
	atomic_store_explicit(&wants.count, 0, memory_order_release);
	pthread_mutex_unlock(&wants.lock);
}

/* What one registry asked for, another one may have. */
static bool begin(struct client *client)
{
	if (!live_read_anew() || !async_read_anew() || !objects_read_anew())
		return false;
	forget_wanted();
	client_begin_resyncing(client);
	telling.goes_on = true;
	telling.connection = client->connections;
	return true;
}

/* The live table first, each time: what is shared and not there yet is known by its reading. Fewer
 * than a part holds: that was all. */
static bool read_part(size_t *out_count)
{
	size_t count = 0, more;

	if (!live_read(telling.part, PART, &count))
		return false;
	if (count < PART) {
		if (!async_read(telling.part + count, PART - count, &more))
			return false;
		count += more;
	}
	if (count < PART) {
		if (!objects_read(telling.part + count, PART - count, &more))
			return false;
		count += more;
	}
	*out_count = count;
	return true;
}

/* What is attached in several places is told of as often, each time with how often it is altogether:
 * the last one counts. */
static unsigned int count_of(const struct live *entry)
{
	unsigned int count;

	if (live_is_own(entry))
		return 1;
	count = live_attached(entry->generation) + async_attached(entry->generation) +
		objects_attached(entry->generation);
	return count ? count : 1;
}

static void add_hold(const struct live *entry, gpushare_Hold *list, pb_size_t *count)
{
	gpushare_Hold *hold = &list[(*count)++];

	strcpy(hold->name, entry->name);
	hold->generation = entry->generation;
	hold->count = count_of(entry);
}

/* What stands under its name ends with the telling, as it was not told of. */
static void want_unsettled(size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (live_is_unsettled(&telling.part[i]))
			want(&telling.part[i], true);
}

static int tell_part(struct client *client, size_t count, int64_t deadline_ms)
{
	const gpushare_ResyncReply *answer = &client->reply.body.resync;
	gpushare_Resync *part = &client->aside.verb.resync;
	int status;

	memset(&client->aside, 0, sizeof(client->aside));
	client->aside.which_verb = gpushare_Request_resync_tag;
	part->last = count < PART;
	for (size_t i = 0; i < count; i++) {
		if (live_is_unsettled(&telling.part[i]))
			continue;
		if (live_is_own(&telling.part[i]))
			add_hold(&telling.part[i], part->shared, &part->shared_count);
		else
			add_hold(&telling.part[i], part->attached, &part->attached_count);
	}
	live_counted();
	if (part->last)
		client_tell_rest(client, part);
	status = client_ask_aside(client, deadline_ms);
	if (status != GPUSHARE_OK || client->reply.which_body != gpushare_Reply_resync_tag)
		return status;
	for (pb_size_t i = 0; i < answer->wanted_count; i++)
		for (size_t j = 0; j < count; j++)
			if (telling.part[j].generation == answer->wanted[i])
				want(&telling.part[j], false);
	want_unsettled(count);
	return status;
}

/* It has no session_key to go on with: what is the program's own is entered as if it were new. */
static void want_part(size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (live_is_own(&telling.part[i]))
			want(&telling.part[i], true);
}

static void conclude(struct client *client)
{
	telling.goes_on = false;
	client_end_resyncing(client);
}

/* Half of the time is for what the call is there for. */
int resync_tell(struct client *client, void *owner, int64_t deadline_ms)
{
	int64_t now = monotonic_ms(), until_ms = now + (deadline_ms - now) / 2;
	bool moved = telling.connection != client->connections, old = !client_has_session(client);
	size_t count;

	(void)owner;
	if (old && !moved && !telling.goes_on) {
		conclude(client); /* it knows the names; there is no word for more */
		return GPUSHARE_OK;
	}
	if ((moved || !telling.goes_on) && !begin(client))
		return GPUSHARE_OK;
	do {
		int status = GPUSHARE_OK;

		if (!read_part(&count))
			return GPUSHARE_OK;
		if (old)
			want_part(count);
		else
			status = tell_part(client, count, deadline_ms);
		if (status != GPUSHARE_OK && client_is_silent(client)) {
			telling.goes_on = false; /* from its beginning on, the next time */
			return status;
		}
		if (status != GPUSHARE_OK) {
			state_log("what is shared could not be told to the registry: %s",
				  client->why);
			count = 0;
		}
		if (count < PART)
			conclude(client);
	} while (telling.goes_on && monotonic_ms() < until_ms);
	return GPUSHARE_OK;
}

static bool get(const struct wanted *wanted, struct live *out_entry)
{
	return wanted->pointer ? live_get(wanted->pointer, wanted->generation, out_entry)
			       : objects_get(wanted->handle, wanted->generation, out_entry);
}

static bool rename_to(const struct wanted *wanted, uint64_t to)
{
	return wanted->pointer ? live_rename(wanted->pointer, wanted->generation, to)
			       : objects_rename(wanted->handle, wanted->generation, to);
}

/* The registry has it again. Where the program has freed it meanwhile, it has not. */
static void settle(const struct wanted *wanted, const struct live *entry, uint64_t generation)
{
	struct live now;
	char why[512];
	bool stands =
	    generation == wanted->generation ? get(wanted, &now) : rename_to(wanted, generation);

	if (stands && wanted->generation && generation != wanted->generation)
		pages_end(wanted->generation);
	if (stands && generation != wanted->generation)
		pages_add(entry->name, generation);
	if (stands && !wanted->generation)
		state_log("\"%s\" is shared: %llu bytes", entry->name,
			  (unsigned long long)entry->size);
	else if (stands)
		state_log("\"%s\" is known to the registry again", entry->name);
	else if (live_is_own(entry))
		link_withdraw(entry->name, generation, NULL, why, sizeof(why));
}

static void lose(const struct wanted *wanted, const struct live *entry, const char *why)
{
	if (!live_is_own(entry)) {
		state_log("\"%s\" can't be brought back: %s", entry->name, why);
		return;
	}
	rename_to(wanted, 0);
	if (!wanted->generation) {
		state_log("\"%s\" is not shared: %s", entry->name, why);
		return;
	}
	pages_end(wanted->generation);
	state_log("\"%s\" is not shared any more: the registry was restarted, and %s", entry->name,
		  why);
}

/* The memory of others can be brought back only where it is kept without them. */
static bool describe(const struct driver *driver, struct live *entry, struct description *out)
{
	*out = (struct description){.fd = -1, .call = NULL};
	if (live_is_own(entry))
		return describe_own(driver, entry, out);
	if (!live_is_mapped(entry) || !(entry->flags & GPUSHARE_FLAG_KEEP))
		return false;
	return describe_attached(driver, entry, out);
}

/* No answer; or in its way stands what ends with the telling, where the time was too short for that. */
static bool is_for_later(const struct wanted *wanted, int status)
{
	return status == GPUSHARE_E_NO_REGISTRY || status == GPUSHARE_E_TIMED_OUT ||
	       status == GPUSHARE_E_NOT_READY ||
	       (status == GPUSHARE_E_EXISTS && !wanted->generation &&
		atomic_load(&telling.goes_on));
}

/* Its own function: the copy is gone from the stack before anybody is asked. */
__attribute__((noinline)) static bool is_still_there(const struct wanted *wanted)
{
	struct live now;

	return get(wanted, &now);
}

/* What was exported is what it was taken for if it is not freed even then: a handle may be another's
 * as soon as it is. False: no more of this now. */
static bool share_one(const struct driver *driver, const struct wanted *wanted, int64_t until_ms)
{
	_scope_ struct scope scope = scope_enter(driver);
	_cleanup_close_ int fd = -1;
	struct description found;
	struct live entry;
	struct link_share again;
	uint64_t generation;
	char why[512];
	int status;

	if (!get(wanted, &entry))
		return true;
	if (entry.context)
		scope_push(&scope, entry.context);
	if (!describe(driver, &entry, &found)) {
		snprintf(why, sizeof(why), "%s answered %s", found.call ? found.call : "",
			 driver_error_name(driver, found.result));
		if (found.call && is_still_there(wanted))
			lose(wanted, &entry, why);
		return true;
	}
	fd = found.fd;
	if (!is_still_there(wanted))
		return true;
	found.what.name = entry.name;
	found.what.mode = entry.mode;
	again = (struct link_share){
	    .what = &found.what,
	    .group = entry.group,
	    .handle = entry.handle,
	    .fd = fd,
	    .again = wanted->anew ? 0 : wanted->generation,
	    .orphan = !live_is_own(&entry),
	};
	status = link_share_again(&again, until_ms, &generation, why, sizeof(why));
	if (status == GPUSHARE_OK) {
		settle(wanted, &entry, generation);
		return true;
	}
	if (is_for_later(wanted, status)) {
		live_miss();
		return false;
	}
	lose(wanted, &entry, why);
	return true;
}

void resync_share_wanted(int64_t until_ms)
{
	const struct driver *driver;
	/* None is begun without time for its answer. */
	int64_t last_ms = until_ms - client_default_timeout_ms() / 4;
	struct wanted wanted;

	if (!atomic_load_explicit(&wants.count, memory_order_acquire) || !process_is_mine() ||
	    process_is_ending() || atomic_flag_test_and_set(&wants.sharing))
		return;
	driver = lookup_driver();
	while (driver && monotonic_ms() < last_ms && take_wanted(&wanted) &&
	       share_one(driver, &wanted, until_ms))
		;
	atomic_flag_clear(&wants.sharing);
}
