/* SPDX-License-Identifier: MIT */
/* No names any more, but not gone: freed by owners who hold the memory until the last attacher
 * leaves, or unlinked, and to be freed by owners who don't know that. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "note.h"
#include "order_page.h"

size_t limbo_seek(const struct registry *registry, uint64_t after)
{
	size_t low = 0, high = registry->nameless;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (registry->limbo[middle]->info.generation <= after)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct entry *limbo_find(const struct registry *registry, uint64_t generation)
{
	size_t at = generation ? limbo_seek(registry, generation - 1) : registry->nameless;

	if (at == registry->nameless || registry->limbo[at]->info.generation != generation)
		return NULL;
	return registry->limbo[at];
}

static bool limbo_grow(struct registry *registry, const struct entry *entry)
{
	size_t room = registry->limbo_room ? registry->limbo_room * 2 : 64;
	struct entry **grown;

	if (!registry->replaying && limit_check(registry, entry->user, LIMIT_limbo, 1, NULL))
		return false;
	if (registry->nameless < registry->limbo_room)
		return true;
	grown = realloc(registry->limbo, room * sizeof(struct entry *));
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
	memmove(registry->limbo + at + 1, registry->limbo + at,
		(registry->nameless - at) * sizeof(struct entry *));
	registry->limbo[at] = entry;
	registry->nameless++;
	return true;
}

bool limbo_enter(struct registry *registry, struct entry *entry, enum departure how)
{
	struct lease *lease = entry->lease;

	if (!limbo_grow(registry, entry))
		return false;
	tombstone_add(&registry->tombstones, entry, how, clock_ns());
	audit_departure(registry, entry, how);
	DL_DELETE(lease->entries, entry);
	store_take(&registry->store, entry);
	registry_release(registry, entry);
	limbo_insert(registry, lease, entry);
	entry->info.missing = false;
	entry->info.in_limbo = how != DEPARTURE_UNLINKED;
	note_entry(registry, entry);
	order_check(registry, entry->info.generation);
	return true;
}

void limbo_give_up(struct registry *registry, struct entry *entry)
{
	size_t at = limbo_seek(registry, entry->info.generation) - 1;

	registry->nameless--;
	memmove(registry->limbo + at, registry->limbo + at + 1,
		(registry->nameless - at) * sizeof(struct entry *));
	DL_DELETE(entry->lease->limbo, entry);
	if (entry->info.backing == GPUSHARE_BACKING_EVENT) /* who waits for it looks there */
		changes_mark(&registry->store.changes, entry->info.name);
	note_gone(registry, entry);
	events_tell(registry, GPUSHARE_NOTICE_REMOVE, entry, entry->owner.pid);
	store_number(&registry->store, entry, 0);
	entry_free(entry);
}

void limbo_leave(struct registry *registry, struct entry *entry)
{
	uint64_t generation = entry->info.generation;

	limbo_give_up(registry, entry);
	order_end(registry, generation);
}
