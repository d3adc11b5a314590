/* SPDX-License-Identifier: MIT */
/* No names any more, but not gone: freed by owners who hold the memory until the last attacher
 * leaves, or unlinked, and to be freed by owners who don't know that. */
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "note.h"
#include "order_page.h"
#include "quota.h"

/* A place whose entry has gone stands until a quarter of all are so: nothing is moved for each that goes. */
#define HOLES_MOST 4

size_t limbo_seek(const struct registry *registry, uint64_t after)
{
	size_t low = 0, high = registry->limbo_end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (registry->limbo[middle].generation <= after)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct entry *limbo_after(const struct registry *registry, size_t *at)
{
	while (*at < registry->limbo_end) {
		struct entry *entry = registry->limbo[(*at)++].entry;

		if (entry)
			return entry;
	}
	return NULL;
}

struct entry *limbo_find(const struct registry *registry, uint64_t generation)
{
	size_t at = generation ? limbo_seek(registry, generation - 1) : registry->limbo_end;

	if (at == registry->limbo_end || registry->limbo[at].generation != generation)
		return NULL;
	return registry->limbo[at].entry;
}

static void close_holes(struct registry *registry)
{
	size_t end = 0;

	for (size_t at = 0; at < registry->limbo_end; at++) {
		if (registry->limbo[at].entry)
			registry->limbo[end++] = registry->limbo[at];
	}
	registry->limbo_end = end;
}

static bool limbo_grow(struct registry *registry, const struct entry *entry)
{
	size_t room = registry->limbo_room ? registry->limbo_room * 2 : 64;
	struct limbo_place *grown;

	if (!registry->replaying && limit_check(registry, entry->user, LIMIT_limbo, 1, NULL))
		return false;
	if (registry->limbo_end < registry->limbo_room)
		return true;
	grown = realloc(registry->limbo, room * sizeof(*grown));
	if (!grown)
		return false;
	registry->limbo = grown;
	registry->limbo_room = room;
	return true;
}

bool limbo_insert(struct registry *registry, struct lease *lease, struct entry *entry)
{
	size_t at;

	if (!limbo_grow(registry, entry))
		return false;
	DL_APPEND(lease->limbo, entry);
	entry->lease = lease;
	user_enter(entry->user, entry, LIMIT_limbo);
	at = limbo_seek(registry, entry->info.generation);
	registry->nameless++;
	if (at && registry->limbo[at - 1].generation == entry->info.generation) {
		registry->limbo[at - 1].entry = entry; /* its own place of before */
		return true;
	}
	memmove(registry->limbo + at + 1, registry->limbo + at,
		(registry->limbo_end - at) * sizeof(*registry->limbo));
	registry->limbo[at] =
	    (struct limbo_place){.generation = entry->info.generation, .entry = entry};
	registry->limbo_end++;
	return true;
}

bool limbo_enter(struct registry *registry, struct entry *entry, enum departure how)
{
	struct lease *lease = entry->lease;

	if (!limbo_grow(registry, entry))
		return false;
	tombstone_add(&registry->tombstones, entry, how, clock_ns());
	audit_departure(registry, entry, how);
	registry_disown(entry);
	registry_hide(registry, entry);
	store_take(&registry->store, entry);
	registry_release(registry, entry);
	limbo_insert(registry, lease, entry);
	entry->info.missing = false;
	entry->info.in_limbo = how != DEPARTURE_UNLINKED;
	note_entry(registry, entry);
	order_check(registry, entry->info.generation);
	return true;
}

unsigned int limbo_give_up(struct registry *registry, struct entry *entry)
{
	unsigned int noted = entry->noted;

	registry->limbo[limbo_seek(registry, entry->info.generation) - 1].entry = NULL;
	registry->nameless--;
	if (registry->limbo_end - registry->nameless > registry->limbo_end / HOLES_MOST)
		close_holes(registry);
	DL_DELETE(entry->lease->limbo, entry);
	if (entry->info.backing == GPUSHARE_BACKING_EVENT) /* who waits for it looks there */
		changes_mark(&registry->changes, entry->info.name);
	events_tell(registry, GPUSHARE_NOTICE_REMOVE, entry, entry->owner.pid);
	store_number(&registry->store, entry, 0);
	entry_free(entry);
	return noted;
}

void limbo_leave(struct registry *registry, struct entry *entry)
{
	uint64_t generation = entry->info.generation;

	note_forget(registry, limbo_give_up(registry, entry));
	order_end(registry, generation);
}
