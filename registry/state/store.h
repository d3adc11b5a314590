/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STORE_H
#define GPUSHARE_REGISTRY_STORE_H
/* Buffers by name and by generation. A deferred or unlinked buffer has no name. */
#include "state/entry.h"

struct store {
	struct tree names;
	struct tree generations; /* also of buffers without a name */
};

void store_init(struct store *store);
/* Give the entry its name, which must be free, or take the name away. */
void store_name(struct store *store, struct entry *entry);
void store_unname(struct store *store, struct entry *entry);
void store_remove(struct store *store, struct entry *entry);
/* Give the entry, which has none, its generation. */
void store_number(struct store *store, struct entry *entry, uint64_t generation);

struct entry *store_find(const struct store *store, const char *name);
/* With a name or without. */
struct entry *store_find_generation(const struct store *store, uint64_t generation);
struct entry *store_find_deferred(const struct store *store, uint64_t generation);
/* The first buffer above that generation, with a name or without. NULL past the end. */
struct entry *store_next(const struct store *store, uint64_t generation);
/* All of them; the body must not remove `entry`. */
#define STORE_FOREACH(store, entry) \
	for (entry = store_next(store, 0); entry; entry = store_next(store, entry->info.generation))

#endif
