/* SPDX-License-Identifier: MIT */
#include "state/store.h"

#include <string.h>

#include "state/users.h"

#define NAMED(found) TREE_FOUND(struct entry, place, found)
#define NUMBERED(found) TREE_FOUND(struct entry, by_generation, found)

static int compare_name(const void *key, const struct tree_node *node)
{
	return strcmp(key, TREE_OF(struct entry, place, node)->name);
}

static int compare_generation(const void *key, const struct tree_node *node)
{
	const struct entry *entry = TREE_OF(struct entry, by_generation, node);
	uint64_t a = *(const uint64_t *)key, b = entry->info.generation;

	return (a > b) - (a < b);
}

void store_init(struct store *store)
{
	*store = (struct store){.names = {.compare = compare_name},
				.generations = {.compare = compare_generation}};
}

void store_name(struct store *store, struct entry *entry)
{
	entry->info.nameless = false;
	tree_insert(&store->names, &entry->place, entry->name);
}

void store_unname(struct store *store, struct entry *entry)
{
	if (!entry->info.nameless)
		tree_remove(&store->names, &entry->place, entry->name);
	entry->info.nameless = true;
}

void store_number(struct store *store, struct entry *entry, uint64_t generation)
{
	entry->info.generation = generation;
	tree_insert(&store->generations, &entry->by_generation, &generation);
}

void store_remove(struct store *store, struct entry *entry)
{
	user_uncharge(entry);
	store_unname(store, entry);
	tree_remove(&store->generations, &entry->by_generation, &entry->info.generation);
	entry_free(entry);
}

struct entry *store_find(const struct store *store, const char *name)
{
	return NAMED(tree_find(&store->names, name));
}

struct entry *store_find_generation(const struct store *store, uint64_t generation)
{
	return NUMBERED(tree_find(&store->generations, &generation));
}

struct entry *store_find_deferred(const struct store *store, uint64_t generation)
{
	struct entry *entry = store_find_generation(store, generation);

	return entry && entry->info.nameless ? entry : NULL;
}

struct entry *store_next(const struct store *store, uint64_t generation)
{
	return NUMBERED(tree_above(&store->generations, &generation));
}
