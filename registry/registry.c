/* SPDX-License-Identifier: MIT */
#include "registry.h"

#include <stdlib.h>
#include <string.h>

#include "state/access.h"
#include "os/clock.h"
#include "persist/fdstore.h"
#include "os/log.h"
#include "save.h"
#include "rate.h"
#include "order_page.h"
#include "os/piece.h"
#include "os/watch.h"
#include "quota.h"

struct registry *registry_new(void)
{
	struct registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return NULL;
	pthread_mutex_init(&registry->lock, NULL);
	limits_init(&registry->limits);
	registry->wake = -1;
	registry->started_unix_ns = clock_unix_ns();
	registry->pid_namespace = process_namespace();
	store_init(&registry->store);
	changes_init(&registry->changes);
	indexer_init(&registry->index);
	registry->events.tick = rate_tick;
	generation_init(&registry->generation);
	registry->since = registry->generation.next;
	records_init(&registry->records);
	return registry;
}

void registry_let_go(struct registry *registry, bool keep)
{
	order_let_go(registry);
	records_close(&registry->records, keep);
	if (registry->fdstore)
		fdstore_close(registry->fdstore, keep);
	registry->fdstore = NULL;
}

struct registry *registry_free(struct registry *registry)
{
	if (!registry)
		return NULL;
	audit_close(registry);
	registry_let_go(registry, true);
	while (registry->sessions.by_id)
		registry_disconnect(registry, registry->sessions.by_id);
	while (registry->kept)
		registry_remove(registry, registry->kept, DEPARTURE_OWNER_GONE);
	order_finish(registry);
	free(registry->deferred);
	store_finish(&registry->store);
	changes_finish(&registry->changes);
	indexer_finish(&registry->index);
	fdtable_finish(&registry->fdtable);
	users_finish(&registry->users);
	pthread_mutex_destroy(&registry->lock);
	free(registry);
	return NULL;
}

void registry_lock(struct registry *registry)
{
	pthread_mutex_lock(&registry->lock);
	registry->locked_ns = clock_ns();
}

void registry_unlock(struct registry *registry)
{
	int64_t held_ns = clock_ns() - registry->locked_ns;

	if (held_ns > registry->held_most_ns)
		registry->held_most_ns = held_ns;
	pthread_mutex_unlock(&registry->lock);
}

struct session *registry_connect(struct registry *registry, uint32_t id, const struct process *peer)
{
	struct user *user = user_of(&registry->users, peer->uid);

	return user ? session_new(&registry->sessions, id, peer, user) : NULL;
}

static struct waiter *take_waiters(struct registry *registry, const struct session *session)
{
	struct waiter *taken = NULL, *waiter, *after;

	DL_FOREACH_SAFE(registry->waiters, waiter, after)
	{
		if (waiter->session != session)
			continue;
		registry_unpark(registry, waiter);
		DL_APPEND(taken, waiter);
	}
	return taken;
}

struct waiter *registry_leave(struct registry *registry, struct session *session)
{
	struct waiter *waiters = take_waiters(registry, session);

	events_leave(registry, session);
	order_end_session(registry, session);
	save_end(registry, session);
	if (!session->disconnected)
		session_disconnect(&registry->sessions, session);
	session->ending = true;
	DL_APPEND(registry->ending, session);
	return waiters;
}

static void end_entry(struct registry *registry, struct entry *entry)
{
	struct session *session = entry->session;

	if (registry_part(registry, entry))
		session->ended.kept++;
	else
		session->ended.names++;
}

/* One thing of it; false: it has nothing any more. */
static bool end_one(struct registry *registry, struct session *session)
{
	struct attachment *attachment = session->attachments;

	if (session->entries) {
		end_entry(registry, session->entries);
	} else if (session->deferred) {
		deferred_leave(registry, session->deferred);
	} else if (attachment) {
		session->ended.attachments += attachment->count;
		registry_detach(registry, session, attachment, attachment->count);
	} else {
		return false;
	}
	return true;
}

bool registry_end(struct registry *registry, struct session *session, int64_t until_ns)
{
	struct piece piece = {.until_ns = until_ns};
	bool more = true;

	while (more && !piece_is_over(&piece))
		more = end_one(registry, session);
	if (!more) {
		log_line("end: uid %u pid %d (%s), %u names withdrawn, %u kept, %u attachments "
			 "released",
			 session->peer.uid, session->peer.pid, session->peer.command,
			 session->ended.names, session->ended.kept, session->ended.attachments);
		DL_DELETE(registry->ending, session);
		session_free(&registry->sessions, session);
	}
	save_flush(registry);
	return more;
}

struct waiter *registry_disconnect(struct registry *registry, struct session *session)
{
	struct waiter *waiters = session->ending ? NULL : registry_leave(registry, session);

	registry_end(registry, session, INT64_MAX);
	return waiters;
}

void registry_end_name(struct registry *registry, const char *name)
{
	struct entry *entry = registry->ending ? store_find(&registry->store, name) : NULL;

	if (entry && entry->session && entry->session->ending)
		end_entry(registry, entry);
}

bool registry_end_some(struct registry *registry, const struct user *user)
{
	struct session *session;

	DL_FOREACH(registry->ending, session)
	{
		if (session->entries && (!user || session->user == user))
			break;
	}
	for (int i = 0; session && session->entries && i < PIECE_LEAST; i++)
		end_entry(registry, session->entries);
	return session;
}

void registry_begin(struct registry *registry, struct entry *entry, uint64_t again)
{
	changes_mark(&registry->changes, entry->info.name);
	generation_pass(&registry->generation, again);
	store_number(&registry->store, entry,
		     again ? again : generation_take(&registry->generation));
	if (!entry->info.mode)
		entry->info.mode = ACCESS_MODE_DEFAULT;
	entry->info.attachers = 0;
	entry->info.missing = entry->info.in_limbo = false;
	entry->info.created_unix_ns = clock_unix_ns();
	entry->created_ns = clock_ns();
}

void registry_own(struct entry *entry, struct session *session)
{
	entry->session = session;
	user_enter(session->user, entry, LIMIT_names);
	entry->told = session->round;
	entry->owner = session->peer;
	entry->deadline_ns = INT64_MAX;
	entry->info.owner_gone = false;
	entry->info.owner_uid = session->peer.uid;
	entry->info.owner_pid = session->peer.pid;
	entry->info.owner_started = session->peer.started;
	strcpy(entry->info.owner_command, session->peer.command);
	DL_APPEND(session->entries, entry);
}

void registry_disown(struct entry *entry)
{
	struct session *session = entry->session;

	if (session->unheard.entry == entry)
		session->unheard.entry = entry->next;
	DL_DELETE(session->entries, entry);
}

struct entry *registry_add(struct registry *registry, struct session *session, const record *info,
			   const uint8_t *handle, uint64_t again)
{
	struct entry *entry = store_add(&registry->store, info, handle);

	if (!entry)
		return NULL;
	registry_begin(registry, entry, again);
	registry_own(entry, session);
	keep_count(entry);
	save_entry(registry, entry);
	events_tell(registry, GPUSHARE_NOTICE_SHARE, entry, session->peer.pid);
	return entry;
}

void registry_hold(struct registry *registry, struct entry *entry, struct held *held)
{
	entry->held = held;
	entry->info.missing = false;
	indexer_update(&registry->index, entry);
	if (registry->fdstore)
		fdstore_put(registry->fdstore, entry->info.generation, held->fd);
	save_entry(registry, entry);
}

void registry_release(struct registry *registry, struct entry *entry)
{
	keep_uncount(entry);
	if (!entry->held)
		return;
	if (registry->fdstore)
		fdstore_drop(registry->fdstore, entry->info.generation);
	fdtable_release(&registry->fdtable, entry->held);
	entry->held = NULL;
}

void registry_drop(struct registry *registry, struct entry *entry)
{
	order_end(registry, entry->info.generation);
	save_gone(registry, entry);
	if (entry->session)
		registry_disown(entry);
	else
		DL_DELETE(registry->kept, entry);
	registry_release(registry, entry);
	registry_hide(registry, entry);
	store_remove(&registry->store, entry);
}

void registry_remove(struct registry *registry, struct entry *entry, enum departure how)
{
	tombstone_add(&registry->tombstones, entry, how, clock_ns());
	events_tell_departure(registry, entry, how);
	audit_departure(registry, entry, how);
	registry_drop(registry, entry);
}

bool registry_part(struct registry *registry, struct entry *entry)
{
	if (entry_stays(entry->info.flags)) {
		keep_orphan(registry, entry);
		return true;
	}
	registry_remove(registry, entry, DEPARTURE_OWNER_GONE);
	return false;
}

bool registry_lose(struct registry *registry, struct entry *entry)
{
	if (!entry->info.missing || entry->session || entry->info.attachers ||
	    registry->away_until_ns)
		return false;
	log_line("\"%s\" is lost", entry->info.name);
	registry_remove(registry, entry, DEPARTURE_LOST);
	return true;
}

/* Of a descriptor the owner makes another mapping, which counts like anybody's; of a handle it has
 * the memory itself. */
static bool is_own(const struct session *session, const struct entry *entry)
{
	return entry->session && process_is_same(&session->peer, &entry->owner) &&
	       !backing_is_fd(entry->info.backing);
}

/* The owner sees there who has left: it may make no call for long that could wait for an answer. */
static void mark_left(struct registry *registry, const struct entry *entry)
{
	if (deferred_find(registry, entry->info.generation) == entry)
		changes_left(&registry->changes, entry->info.generation, !entry->info.attachers);
}

struct attachment *registry_set(struct registry *registry, struct session *session,
				const char *name, uint64_t generation, unsigned int count)
{
	struct entry *entry = registry_find(registry, name, generation);
	struct attachment *attachment = session_find_attachment(session, name, generation);
	unsigned int before = attachment ? attachment->count : 0;

	attachment = session_set(&registry->sessions, session, name, generation, count);
	if (!attachment)
		return NULL;
	if (entry) {
		if (!before)
			attachment->own = is_own(session, entry);
		attachment->quiet = entry_is_staged(entry->info.flags);
		if (!attachment->own)
			entry->info.attachers += count - before;
		mark_left(registry, entry);
		indexer_update(&registry->index, entry);
	}
	save_attachment(registry, session, attachment, count);
	if (count != before)
		events_tell_attachment(
		    registry, count > before ? GPUSHARE_NOTICE_ATTACH : GPUSHARE_NOTICE_DETACH,
		    session, attachment, entry);
	return attachment;
}

void registry_join(const struct session *session, struct attachment *attachment,
		   struct entry *entry)
{
	attachment->own = is_own(session, entry);
	if (!attachment->own)
		entry->info.attachers += attachment->count;
}

void registry_count(struct registry *registry, struct entry *entry)
{
	for (struct session *session = registry->sessions.by_id; session;
	     session = session->hh.next) {
		struct attachment *attachment =
		    session_find_attachment(session, entry->info.name, entry->info.generation);

		if (attachment)
			registry_join(session, attachment, entry);
	}
	indexer_update(&registry->index, entry);
}

void registry_detach(struct registry *registry, struct session *session,
		     struct attachment *attachment, unsigned int count)
{
	/* The name may have gone, or be another buffer's by now. */
	struct entry *entry = registry_find(registry, attachment->name, attachment->generation);
	bool counted = entry && !attachment->own;
	uint64_t generation = attachment->generation;

	if (counted) {
		entry->info.attachers -= count;
		mark_left(registry, entry);
		indexer_update(&registry->index, entry);
	}
	save_attachment(registry, session, attachment, attachment->count - count);
	events_tell_attachment(registry, GPUSHARE_NOTICE_DETACH, session, attachment, entry);
	session_detach(&registry->sessions, session, attachment, count);
	order_check(registry, generation);
	if (counted)
		registry_lose(registry, entry);
}

bool registry_has_gone(const struct registry *registry, const char *name, uint64_t generation)
{
	const struct tombstone *tombstone = tombstone_find(&registry->tombstones, name, clock_ns());

	return generation > registry->since && !(tombstone && tombstone->how == DEPARTURE_LOST);
}

struct entry *registry_find(const struct registry *registry, const char *name, uint64_t generation)
{
	struct entry *entry = store_find(&registry->store, name);

	if (entry && entry->info.generation == generation)
		return entry;
	entry = deferred_find(registry, generation);
	return entry && !strcmp(entry->info.name, name) ? entry : NULL;
}

void registry_bury(struct registry *registry, const struct session *by, const char *name)
{
	struct entry *entry = store_find(&registry->store, name);
	const struct session *owner = entry ? entry->session : NULL;

	if (owner &&
	    (watch_ended(owner->watch) || (process_is_same(&owner->peer, &by->peer) &&
					   process_is_other_program(&owner->peer, &by->peer))))
		registry_part(registry, entry);
}

void registry_park(struct registry *registry, struct waiter *waiter)
{
	DL_APPEND(registry->waiters, waiter);
	user_add(waiter->session->user, LIMIT_waiters, 1);
	registry->waiter_count++;
}

void registry_unpark(struct registry *registry, struct waiter *waiter)
{
	DL_DELETE(registry->waiters, waiter);
	user_take(waiter->session->user, LIMIT_waiters, 1);
	registry->waiter_count--;
}

int64_t registry_next_deadline_ns(const struct registry *registry)
{
	int64_t next = INT64_MAX;
	const struct waiter *waiter;

	DL_FOREACH(registry->waiters, waiter)
	{
		if (waiter->deadline_ns < next)
			next = waiter->deadline_ns;
	}
	return next;
}

/* What was published last is not in the index: it changes without the registry's doing. Nor is what not
 * all who may read that may see, or nobody so far. */
void registry_show(struct registry *registry, struct entry *entry)
{
	if (order_find(registry, entry->info.generation) || entry_is_staged(entry->info.flags) ||
	    (registry->is_system && !access_is_open(&entry->info)))
		indexer_remove(&registry->index, entry);
	else
		indexer_put(&registry->index, entry);
}

void registry_hide(struct registry *registry, struct entry *entry)
{
	changes_mark(&registry->changes, entry->info.name);
	indexer_remove(&registry->index, entry);
}

void registry_tell(const struct registry *registry, const struct session *session,
		   const struct entry *entry, record *out_info)
{
	entry_tell(entry, out_info);
	order_tell(registry, entry, out_info);
	/* An address is no secret; one of cudaMalloc just means nothing elsewhere. */
	if (!backing_is_fd(entry->info.backing) &&
	    !(session && process_is_same(&session->peer, &entry->owner)))
		out_info->address = 0;
	if (entry->deadline_ns != INT64_MAX) {
		int64_t left_ns = entry->deadline_ns - clock_ns();

		out_info->ttl_left_s =
		    left_ns > 0 ? (uint32_t)((left_ns + NS_PER_S - 1) / NS_PER_S) : 0;
	}
}
