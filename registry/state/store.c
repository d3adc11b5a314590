/* SPDX-License-Identifier: MIT */
#include "store.h"

#include <string.h>

void store_init(struct store *store)
{
	*store = (struct store){0};
}

void store_finish(struct store *store)
{
	while (store->count)
		store_remove(store, store_at(store, store->count - 1));
	ordered_finish(&store->ordered);
	*store = (struct store){0};
}

struct entry *store_find(const struct store *store, const char *name)
{
	size_t length = strlen(name);
	unsigned int hash = hash_of(name, length);
	struct entry *found;

	HASH_FIND_BYHASHVALUE(hh, store->by_name[HASH_PART(hash)], name, length, hash, found);
	return found;
}

size_t store_seek(const struct store *store, const char *after)
{
	return ordered_seek(&store->ordered, after);
}

struct entry *store_at(const struct store *store, size_t position)
{
	return ordered_at(&store->ordered, position);
}

struct entry *store_add(struct store *store, const record *info, const uint8_t *handle)
{
	struct entry *entry;
	unsigned int hash;
	size_t length;

	if (!ordered_reserve(&store->ordered))
		return NULL;
	entry = entry_new(info, handle);
	if (!entry)
		return NULL;
	entry->info.generation = 0;
	length = strlen(entry->info.name);
	hash = hash_of(entry->info.name, length);
	HASH_ADD_BYHASHVALUE(hh, store->by_name[HASH_PART(hash)], info.name, length, hash, entry);
	if (!entry->hh.tbl)
		return entry_free(entry);
	ordered_insert(&store->ordered, entry);
	store->count++;
	return entry;
}

void store_number(struct store *store, struct entry *entry, uint64_t generation)
{
	unsigned int hash = hash_of(&generation, sizeof(generation));

	if (entry->by_generation.tbl)
		HASH_DELETE(by_generation,
			    store->by_generation[HASH_PART(entry->by_generation.hashv)], entry);
	entry->by_generation.tbl = NULL;
	entry->info.generation = generation;
	if (generation)
		HASH_ADD_BYHASHVALUE(by_generation, store->by_generation[HASH_PART(hash)],
				     info.generation, sizeof(generation), hash, entry);
}

struct entry *store_find_generation(const struct store *store, uint64_t generation)
{
	unsigned int hash = hash_of(&generation, sizeof(generation));
	struct entry *found;

	HASH_FIND_BYHASHVALUE(by_generation, store->by_generation[HASH_PART(hash)], &generation,
			      sizeof(generation), hash, found);
	return found;
}

void store_take(struct store *store, struct entry *entry)
{
	ordered_remove(&store->ordered, entry);
	store->count--;
	HASH_DEL(store->by_name[HASH_PART(entry->hh.hashv)], entry);
}

void store_remove(struct store *store, struct entry *entry)
{
	store_take(store, entry);
	store_number(store, entry, 0);
	entry_free(entry);
}
