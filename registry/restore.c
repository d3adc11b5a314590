/* SPDX-License-Identifier: MIT */
#include "restore.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "persist/fdstore.h"
#include "os/log.h"
#include "save.h"
#include "order/order.h"

static bool is_none(const uint8_t key[GPUSHARE_SESSION_KEY_SIZE])
{
	static const uint8_t none[GPUSHARE_SESSION_KEY_SIZE];

	return !memcmp(key, none, sizeof(none));
}

/* Who isn't visible, but can be told from others when it comes back, has some time for that. */
static bool lives(const struct registry *registry, const struct session *session)
{
	if (session->peer.pid <= 0 && session->peer.own_namespace)
		return clock_ns() < registry->unseen_until_ns;
	return process_lives(&session->peer);
}

static bool has_nothing(const struct session *session)
{
	return !session->entries && !session->attachments && !session->deferred &&
	       !session->participants;
}

static void end_dead(struct registry *registry)
{
	struct session *session, *after;

	HASH_ITER (hh, registry->state.sessions.by_id, session, after) {
		if (has_nothing(session) || !lives(registry, session))
			registry_disconnect(registry, session);
	}
}

/* What travels as a descriptor has it again, or misses it. */
static void take_descriptors(struct registry *registry)
{
	struct entry *entry;

	for (entry = store_after(&registry->state.store, ""); entry;
	     entry = store_after(&registry->state.store, entry->info.name)) {
		int fd;

		if (!backing_is_fd(entry->info.backing))
			continue;
		fd = fdstore_take(registry->fdstore, entry->info.generation);
		if (fd >= 0)
			entry->held = fdtable_keep(&registry->fdtable, entry->user, fd);
		if (fd >= 0 && !entry->held) {
			fdstore_drop(registry->fdstore, entry->info.generation);
			close(fd);
		}
		entry->info.missing = !entry->held;
		if (!entry->session) /* since end_dead(), when it could not be saved */
			save_entry(registry, entry);
	}
}

/* Names that nobody is left to bring back. Returns how many are still missing. */
static unsigned int end_lost(struct registry *registry)
{
	unsigned int missing = 0;
	struct entry *entry = store_after(&registry->state.store, ""), *after;

	for (; entry; entry = after) {
		after = store_after(&registry->state.store, entry->info.name);
		if (entry->info.missing && !buffer_lose(&registry->state, entry))
			missing++;
	}
	return missing;
}

bool restore_open(struct registry *registry, const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct entry *entry;
	unsigned int missing;
	bool goes_on;

	registry->fdstore = fdstore_open(directory);
	if (fd < 0 || !registry->fdstore) {
		log_error("can't open %s: %s", directory, strerror(errno));
		if (fd >= 0)
			close(fd);
		return false;
	}
	registry->unseen_until_ns = clock_ns() + LIMIT_UNSEEN_S * NS_PER_S;
	registry_lock(registry);
	records_open(&registry->records, fd);
	goes_on = load_records(registry);
	order_restore(registry);
	end_dead(registry);
	take_descriptors(registry);
	if (registry->away && !fdstore_is_managers(registry->fdstore))
		registry->state.away_until_ns = clock_ns() + LIMIT_AWAY_S * NS_PER_S;
	else
		registry->away = fdstore_is_managers(registry->fdstore);
	missing = end_lost(registry);
	fdstore_settle(registry->fdstore);
	if (goes_on)
		save_header(registry);
	else
		save_all(registry);
	for (entry = store_after(&registry->state.store, ""); entry;
	     entry = store_after(&registry->state.store, entry->info.name))
		registry_show(registry, entry);
	if (registry->state.store.count)
		log_line("of before: %zu names, %u of them without their memory, %u processes",
			 registry->state.store.count, missing,
			 (unsigned int)registry->state.sessions.disconnected);
	registry_unlock(registry);
	registry->held_most_ns = 0; /* nobody could be waiting */
	return true;
}

void restore_watch(struct registry *registry, int watches)
{
	struct session *session, *after;

	HASH_ITER (hh, registry->state.sessions.by_id, session, after) {
		session->watch = watch_add(watches, session->peer.pid, session->id);
		/* It may have ended, and another one have its pid. */
		if (!lives(registry, session)) {
			watch_remove(session->watch);
			registry_disconnect(registry, session);
		}
	}
}

uint32_t restore_next_dead(const struct registry *registry)
{
	if (!registry->state.sessions.disconnected)
		return 0;
	for (struct session *session = registry->state.sessions.by_id; session;
	     session = session->hh.next) {
		if (session->disconnected && !session->ending &&
		    (has_nothing(session) || (session->watch < 0 && !lives(registry, session))))
			return session->id;
	}
	return 0;
}

static void own(struct entry *entry, struct session *session)
{
	entry->session = session;
	if (process_is_same(&entry->owner, &session->peer))
		return;
	entry->owner = session->peer;
	entry->info.owner_pid = session->peer.pid;
	entry->info.owner_started = session->peer.started;
}

/* The session owns all that it has, as its process is seen now. */
static void own_all(struct session *session)
{
	struct entry *entry;

	DL_FOREACH(session->entries, entry)
	{
		own(entry, session);
	}
	DL_FOREACH(session->deferred, entry)
	{
		own(entry, session);
	}
}

/* The old session is left with nothing, and with a key that nobody was told. */
static void move_all(struct session *from, struct session *to)
{
	uint8_t key[GPUSHARE_SESSION_KEY_SIZE];

	memcpy(key, to->key, sizeof(key));
	memcpy(to->key, from->key, sizeof(key));
	memcpy(from->key, key, sizeof(key));
	to->record_slot = from->record_slot;
	to->entries = from->entries;
	to->attachments = from->attachments;
	to->attached = from->attached;
	to->deferred = from->deferred;
	participant_move_all(from, to);
	from->record_slot = 0;
	from->entries = from->deferred = NULL;
	from->attachments = NULL;
	from->attached.root = NULL;
	to->resyncing = false;
	to->round = from->round;
	own_all(to);
}

/* Who was seen from another pid namespace is believed by what it says of itself, and by the key. */
static bool is_same(const struct session *old, const struct session *session)
{
	return process_is_same(&old->peer, &session->peer) ||
	       (old->disconnected && old->peer.pid <= 0 &&
		process_says_same(&old->peer, &session->peer));
}

/* What it has here by other connections, which it has not come back for so far, is the same one's. */
static void recognise(struct registry *registry, const struct session *session)
{
	for (struct session *old = registry->state.sessions.by_id; old; old = old->hh.next) {
		if (!old->disconnected || old->peer.pid > 0 ||
		    !process_says_same(&old->peer, &session->peer))
			continue;
		participant_see(old, &session->peer);
		own_all(old);
		state_see(&registry->state, old);
	}
}

/* Its client has given up waiting for us, and come again meanwhile. What came first may be greeted last. */
static bool is_later(const struct session *session, const struct session *other)
{
	if (session->attempt && other->attempt)
		return session->attempt > other->attempt;
	return session->serial > other->serial;
}

bool restore_resume(struct registry *registry, struct session *session,
		    const uint8_t key[GPUSHARE_SESSION_KEY_SIZE])
{
	struct session *old =
	    is_none(key) ? NULL : session_find_key(&registry->state.sessions, key);
	bool seen_anew;

	if (!old || old == session || old->peer.uid != session->peer.uid ||
	    !is_same(old, session) || !has_nothing(session) || session->record_slot)
		return false;
	if (!old->disconnected && is_later(old, session))
		return false;
	seen_anew = old->peer.pid != session->peer.pid;
	move_all(old, session);
	old->given_up = true;
	if (seen_anew) {
		recognise(registry, session);
		state_see(&registry->state, session);
	}
	log_line("resumed: uid %u pid %d (%s)", session->peer.uid, session->peer.pid,
		 session->peer.command);
	if (old->disconnected) {
		watch_remove(old->watch);
		session_free(&registry->state.sessions, old);
	}
	return true;
}

void restore_leave(struct registry *registry)
{
	bool keep;

	registry_lock(registry);
	registry->leaving = true;
	while (registry->state.ending)
		registry_disconnect(registry, registry->state.ending);
	indexer_close(&registry->index);
	keep = registry->state.store.count || registry->state.store.nameless;
	if (keep && registry->records.file < 0)
		save_all(registry);
	registry_let_go(registry, keep);
	registry_unlock(registry);
}
