/* SPDX-License-Identifier: MIT */
/* No names any more, but not gone: freed by owners who hold the memory until the last attacher
 * leaves, or unlinked, and to be freed by owners who don't know that. */
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "save.h"
#include "order_page.h"
#include "quota.h"

/* A place whose entry has gone stands until a quarter of all are so: nothing is moved for each that goes. */
#define HOLES_MOST 4

size_t deferred_seek(const struct registry *registry, uint64_t after)
{
	size_t low = 0, high = registry->deferred_end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (registry->deferred[middle].generation <= after)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct entry *deferred_after(const struct registry *registry, size_t *at)
{
	while (*at < registry->deferred_end) {
		struct entry *entry = registry->deferred[(*at)++].entry;

		if (entry)
			return entry;
	}
	return NULL;
}

struct entry *deferred_find(const struct registry *registry, uint64_t generation)
{
	size_t at = generation ? deferred_seek(registry, generation - 1) : registry->deferred_end;

	if (at == registry->deferred_end || registry->deferred[at].generation != generation)
		return NULL;
	return registry->deferred[at].entry;
}

static void close_holes(struct registry *registry)
{
	size_t end = 0;

	for (size_t at = 0; at < registry->deferred_end; at++) {
		if (registry->deferred[at].entry)
			registry->deferred[end++] = registry->deferred[at];
	}
	registry->deferred_end = end;
}

static bool deferred_grow(struct registry *registry, const struct entry *entry)
{
	size_t room = registry->deferred_room ? registry->deferred_room * 2 : 64;
	struct deferred_place *grown;

	if (!registry->loading && limit_check(registry, entry->user, LIMIT_limbo, 1, NULL))
		return false;
	if (registry->deferred_end < registry->deferred_room)
		return true;
	grown = realloc(registry->deferred, room * sizeof(*grown));
	if (!grown)
		return false;
	registry->deferred = grown;
	registry->deferred_room = room;
	return true;
}

bool deferred_insert(struct registry *registry, struct session *session, struct entry *entry)
{
	size_t at;

	if (!deferred_grow(registry, entry))
		return false;
	DL_APPEND(session->deferred, entry);
	entry->session = session;
	user_enter(entry->user, entry, LIMIT_limbo);
	at = deferred_seek(registry, entry->info.generation);
	registry->nameless++;
	if (at && registry->deferred[at - 1].generation == entry->info.generation) {
		registry->deferred[at - 1].entry = entry; /* its own place of before */
		return true;
	}
	memmove(registry->deferred + at + 1, registry->deferred + at,
		(registry->deferred_end - at) * sizeof(*registry->deferred));
	registry->deferred[at] =
	    (struct deferred_place){.generation = entry->info.generation, .entry = entry};
	registry->deferred_end++;
	return true;
}

bool deferred_enter(struct registry *registry, struct entry *entry, enum departure how)
{
	struct session *session = entry->session;

	if (!deferred_grow(registry, entry))
		return false;
	tombstone_add(&registry->tombstones, entry, how, clock_ns());
	audit_departure(registry, entry, how);
	registry_disown(entry);
	registry_hide(registry, entry);
	store_take(&registry->store, entry);
	registry_release(registry, entry);
	deferred_insert(registry, session, entry);
	entry->info.missing = false;
	entry->info.in_limbo = how != DEPARTURE_UNLINKED;
	save_entry(registry, entry);
	order_check(registry, entry->info.generation);
	return true;
}

unsigned int deferred_give_up(struct registry *registry, struct entry *entry)
{
	unsigned int record_slot = entry->record_slot;

	registry->deferred[deferred_seek(registry, entry->info.generation) - 1].entry = NULL;
	registry->nameless--;
	if (registry->deferred_end - registry->nameless > registry->deferred_end / HOLES_MOST)
		close_holes(registry);
	DL_DELETE(entry->session->deferred, entry);
	if (entry->info.backing == GPUSHARE_BACKING_EVENT) /* who waits for it looks there */
		changes_mark(&registry->changes, entry->info.name);
	events_tell(registry, GPUSHARE_NOTICE_REMOVE, entry, entry->owner.pid);
	store_number(&registry->store, entry, 0);
	entry_free(entry);
	return record_slot;
}

void deferred_leave(struct registry *registry, struct entry *entry)
{
	uint64_t generation = entry->info.generation;

	save_forget(registry, deferred_give_up(registry, entry));
	order_end(registry, generation);
}
