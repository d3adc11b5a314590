/* SPDX-License-Identifier: MIT */
#include "store.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "users.h"

void store_init(struct store *store)
{
	*store = (struct store){0};
	changes_init(&store->changes);
	indexer_init(&store->index);
}

void store_finish(struct store *store)
{
	while (store->count)
		store_remove(store, store->ordered[store->count - 1]);
	free(store->ordered);
	changes_finish(&store->changes);
	indexer_finish(&store->index);
	*store = (struct store){0};
}

struct entry *store_find(const struct store *store, const char *name)
{
	struct entry *found;

	HASH_FIND_STR(store->by_name, name, found);
	return found;
}

size_t store_seek(const struct store *store, const char *after)
{
	size_t low = 0, high = store->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(store->ordered[middle]->info.name, after) <= 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct entry *store_at(const struct store *store, size_t position)
{
	return position < store->count ? store->ordered[position] : NULL;
}

static bool store_grow(struct store *store)
{
	size_t room = store->room ? store->room * 2 : 64;
	struct entry **ordered;

	if (store->count < store->room)
		return true;
	ordered = realloc(store->ordered, room * sizeof(struct entry *));
	if (!ordered)
		return false;
	store->ordered = ordered;
	store->room = room;
	return true;
}

struct entry *store_add(struct store *store, const record *info, const uint8_t *handle)
{
	struct entry *entry;
	size_t at;

	if (!store_grow(store))
		return NULL;
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return NULL;
	entry->info = *info;
	entry->info.generation = 0;
	entry->created_ns = clock_ns();
	entry->deadline_ns = INT64_MAX;
	memcpy(entry->handle, handle, sizeof(entry->handle));
	HASH_ADD_STR(store->by_name, info.name, entry);
	if (!entry->hh.tbl) {
		free(entry);
		return NULL;
	}
	at = store_seek(store, entry->info.name);
	memmove(store->ordered + at + 1, store->ordered + at,
		(store->count - at) * sizeof(struct entry *));
	store->ordered[at] = entry;
	store->count++;
	return entry;
}

void store_number(struct store *store, struct entry *entry, uint64_t generation)
{
	if (entry->by_generation.tbl)
		HASH_DELETE(by_generation, store->by_generation, entry);
	entry->by_generation.tbl = NULL;
	entry->info.generation = generation;
	if (generation)
		HASH_ADD(by_generation, store->by_generation, info.generation,
			 sizeof(entry->info.generation), entry);
}

struct entry *store_find_generation(const struct store *store, uint64_t generation)
{
	struct entry *found;

	HASH_FIND(by_generation, store->by_generation, &generation, sizeof(generation), found);
	return found;
}

void store_take(struct store *store, struct entry *entry)
{
	size_t at = store_seek(store, entry->info.name) - 1; /* seek is one past the name itself */

	changes_mark(&store->changes, entry->info.name);
	indexer_remove(&store->index, entry);
	store->count--;
	memmove(store->ordered + at, store->ordered + at + 1,
		(store->count - at) * sizeof(struct entry *));
	HASH_DEL(store->by_name, entry);
}

void store_remove(struct store *store, struct entry *entry)
{
	store_take(store, entry);
	store_number(store, entry, 0);
	user_leave(entry);
	free(entry);
}
