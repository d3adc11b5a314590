/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STORE_H
#define GPUSHARE_REGISTRY_STORE_H
/* Buffers by name and by generation. One whose free is deferred has no name. */
#include "state/entry.h"

struct store {
	struct tree names;
	struct tree generations; /* also of deferred ones */
	size_t count, nameless;
};

void store_init(struct store *store);
/* Without a generation; the name must be free. NULL: out of memory, nothing changed. */
struct entry *store_add(struct store *store, const record *info, const uint8_t *handle);
/* An entry that is not counted is counted as one with its name, or without. */
void store_name(struct store *store, struct entry *entry);
void store_defer(struct store *store, struct entry *entry);
/* It loses its name, if it has one, and keeps its generation; it is not counted. */
void store_take(struct store *store, struct entry *entry);
void store_remove(struct store *store, struct entry *entry);
/* Give a named buffer, or one that is nowhere, that generation; 0: none. */
void store_number(struct store *store, struct entry *entry, uint64_t generation);

struct entry *store_find(const struct store *store, const char *name);
/* With a name or without. */
struct entry *store_find_generation(const struct store *store, uint64_t generation);
struct entry *store_find_deferred(const struct store *store, uint64_t generation);
/* The first name above `name`; "" for the beginning. NULL past the end. */
struct entry *store_after(const struct store *store, const char *name);
/* The first buffer above that generation, with a name or without. NULL past the end. */
struct entry *store_next(const struct store *store, uint64_t generation);

#endif
