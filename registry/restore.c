/* SPDX-License-Identifier: MIT */
#include "restore.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "persist/fdstore.h"
#include "os/log.h"
#include "note.h"
#include "order_page.h"
#include "replay.h"
#include "os/watch.h"

static bool is_none(const uint8_t key[GPUSHARE_LEASE_SIZE])
{
	static const uint8_t none[GPUSHARE_LEASE_SIZE];

	return !memcmp(key, none, sizeof(none));
}

/* Who isn't visible, but can be told from others when it comes back, has some time for that. */
static bool lives(const struct registry *registry, const struct lease *lease)
{
	if (lease->peer.pid <= 0 && lease->peer.own_namespace)
		return clock_ns() < registry->unseen_until_ns;
	return process_lives(&lease->peer);
}

static bool has_nothing(const struct lease *lease)
{
	return !lease->entries && !lease->attachments && !lease->limbo && !lease->players;
}

static void end_dead(struct registry *registry)
{
	struct lease *lease, *after;

	HASH_ITER (hh, registry->leases.by_id, lease, after) {
		if (has_nothing(lease) || !lives(registry, lease))
			registry_disconnect(registry, lease);
	}
}

/* Who is visible here publishes by the same number as the connections that it makes from now on. */
static void renumber_visible(const struct registry *registry)
{
	for (struct lease *lease = registry->leases.by_id; lease; lease = lease->hh.next) {
		const struct process peer = lease->peer;

		if (lease->number && peer.pid > 0)
			player_see(lease, &peer);
	}
}

/* What travels as a descriptor has it again, or misses it. */
static void take_descriptors(struct registry *registry)
{
	struct entry *entry;

	for (size_t at = 0; (entry = store_at(&registry->store, at)); at++) {
		int fd;

		if (!backing_is_fd(entry->info.backing))
			continue;
		fd = fdstore_take(registry->fdstore, entry->info.generation);
		if (fd >= 0)
			entry->held = vault_keep(&registry->vault, entry->user, fd);
		if (fd >= 0 && !entry->held) {
			fdstore_drop(registry->fdstore, entry->info.generation);
			close(fd);
		}
		entry->info.missing = !entry->held;
	}
}

/* Names that nobody is left to bring back. Returns how many are still missing. */
static unsigned int end_lost(struct registry *registry)
{
	unsigned int missing = 0;
	struct entry *entry;

	for (size_t at = registry->store.count; at-- > 0;) {
		entry = store_at(&registry->store, at);
		if (entry->info.missing && !registry_lose(registry, entry))
			missing++;
	}
	return missing;
}

bool restore_open(struct registry *registry, const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
	registry_lock(registry); /* the audit has a thread by now */
	records_open(&registry->records, fd);
	goes_on = replay(registry);
	order_restore(registry);
	renumber_visible(registry);
	end_dead(registry);
	take_descriptors(registry);
	if (registry->away && !fdstore_is_managers(registry->fdstore))
		registry->away_until_ns = clock_ns() + LIMIT_AWAY_S * NS_PER_S;
	else
		registry->away = fdstore_is_managers(registry->fdstore);
	missing = end_lost(registry);
	fdstore_settle(registry->fdstore);
	if (goes_on)
		note_begin(registry);
	else
		note_all(registry);
	for (size_t at = 0; at < registry->store.count; at++)
		registry_show(registry, store_at(&registry->store, at));
	if (registry->store.count)
		log_line("of before: %zu names, %u of them without their memory, %u processes",
			 registry->store.count, missing, (unsigned int)registry->leases.ghosts);
	registry_unlock(registry);
	registry->held_most_ns = 0; /* nobody could be waiting */
	return true;
}

void restore_watch(struct registry *registry, int watches)
{
	struct lease *lease, *after;

	HASH_ITER (hh, registry->leases.by_id, lease, after) {
		lease->watch = watch_add(watches, lease->peer.pid, lease->id);
		/* It may have ended, and another one have its pid. */
		if (!lives(registry, lease)) {
			watch_remove(lease->watch);
			registry_disconnect(registry, lease);
		}
	}
}

uint32_t restore_next_dead(const struct registry *registry)
{
	if (!registry->leases.ghosts)
		return 0;
	for (struct lease *lease = registry->leases.by_id; lease; lease = lease->hh.next) {
		if (lease->ghost && !lease->ending &&
		    (has_nothing(lease) || (lease->watch < 0 && !lives(registry, lease))))
			return lease->id;
	}
	return 0;
}

/* Its owner is as it is seen now. */
static void own(struct entry *entry, struct lease *lease)
{
	entry->lease = lease;
	if (process_is_same(&entry->owner, &lease->peer))
		return;
	entry->owner = lease->peer;
	entry->info.owner_pid = lease->peer.pid;
	entry->info.owner_started = lease->peer.started;
}

/* The old lease is left with nothing, and with a key that nobody was told. */
static void move_all(struct lease *from, struct lease *to)
{
	uint8_t key[GPUSHARE_LEASE_SIZE];
	uint64_t holder = to->holder;
	struct entry *entry;

	memcpy(key, to->key, sizeof(key));
	memcpy(to->key, from->key, sizeof(key));
	memcpy(from->key, key, sizeof(key));
	to->noted = from->noted;
	to->entries = from->entries;
	to->attachments = from->attachments;
	to->holder = from->holder;
	to->limbo = from->limbo;
	player_move_all(from, to);
	from->noted = 0;
	from->entries = from->limbo = NULL;
	from->attachments = NULL;
	from->holder = holder;
	to->retelling = false;
	to->round = from->round;
	DL_FOREACH(to->entries, entry)
	{
		own(entry, to);
	}
	DL_FOREACH(to->limbo, entry)
	{
		own(entry, to);
	}
}

/* Who was seen from another pid namespace is believed by what it says of itself, and by the key. */
static bool is_same(const struct lease *old, const struct lease *lease)
{
	return process_is_same(&old->peer, &lease->peer) ||
	       (old->ghost && old->peer.pid <= 0 && process_says_same(&old->peer, &lease->peer));
}

/* What it has here by other connections, which it has not come back for so far, is the same one's. */
static void recognise(struct registry *registry, const struct lease *lease)
{
	struct entry *entry;

	for (struct lease *ghost = registry->leases.by_id; ghost; ghost = ghost->hh.next) {
		if (!ghost->ghost || ghost->peer.pid > 0 ||
		    !process_says_same(&ghost->peer, &lease->peer))
			continue;
		player_see(ghost, &lease->peer);
		DL_FOREACH(ghost->entries, entry)
		{
			own(entry, ghost);
		}
		DL_FOREACH(ghost->limbo, entry)
		{
			own(entry, ghost);
		}
		note_seen(registry, ghost);
	}
}

/* Its client has given up waiting for us, and come again meanwhile. What came first may be greeted last. */
static bool is_later(const struct lease *lease, const struct lease *other)
{
	if (lease->attempt && other->attempt)
		return lease->attempt > other->attempt;
	return lease->serial > other->serial;
}

bool restore_resume(struct registry *registry, struct lease *lease,
		    const uint8_t key[GPUSHARE_LEASE_SIZE])
{
	struct lease *old = is_none(key) ? NULL : lease_find_key(&registry->leases, key);
	bool seen_anew;

	if (!old || old == lease || old->peer.uid != lease->peer.uid || !is_same(old, lease) ||
	    !has_nothing(lease) || lease->noted)
		return false;
	if (!old->ghost && is_later(old, lease))
		return false;
	seen_anew = old->peer.pid != lease->peer.pid;
	move_all(old, lease);
	old->given_up = true;
	if (seen_anew) {
		recognise(registry, lease);
		note_seen(registry, lease);
	}
	log_line("resumed: uid %u pid %d (%s)", lease->peer.uid, lease->peer.pid,
		 lease->peer.command);
	if (old->ghost) {
		watch_remove(old->watch);
		lease_free(&registry->leases, old);
	}
	return true;
}

/* What isn't kept goes with its owner, also when no registry comes that could see its end. */
static bool tie_to_owner(const struct registry *registry, const struct lease *lease)
{
	uint64_t generations[FDS_MAX];
	struct entry *entry;
	size_t count = 0;

	DL_FOREACH(lease->entries, entry)
	{
		if (!entry->held || entry_stays(entry->info.flags))
			continue;
		generations[count++] = entry->info.generation;
		if (count < FDS_MAX)
			continue;
		if (!fdstore_tie(registry->fdstore, lease->watch, generations, count))
			return false;
		count = 0;
	}
	return !count || fdstore_tie(registry->fdstore, lease->watch, generations, count);
}

static void tie_to_owners(const struct registry *registry)
{
	for (struct lease *lease = registry->leases.by_id; lease; lease = lease->hh.next) {
		if (lease->watch >= 0 && !tie_to_owner(registry, lease))
			return;
	}
}

void restore_leave(struct registry *registry)
{
	bool keep;

	registry_lock(registry);
	registry->leaving = true;
	while (registry->ending)
		registry_disconnect(registry, registry->ending);
	indexer_close(&registry->index);
	keep = registry->store.count || registry->nameless;
	if (keep && registry->records.file < 0)
		note_all(registry);
	if (registry->fdstore)
		tie_to_owners(registry);
	registry_let_go(registry, keep);
	registry_unlock(registry);
}
