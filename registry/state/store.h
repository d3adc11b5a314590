/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STORE_H
#define GPUSHARE_REGISTRY_STORE_H
/* Buffers by name and by generation. One whose free is deferred has no name here, but a place by generation. */
#include "state/entry.h"

struct store {
	struct tree names;
	struct tree deferred;	 /* by generation */
	struct tree generations; /* of both */
	size_t count, nameless;
};

void store_init(struct store *store);
/* Frees what is left. */
void store_finish(struct store *store);
/* Without a generation; the name must be free. NULL: out of memory, nothing changed. */
struct entry *store_add(struct store *store, const record *info, const uint8_t *handle);
/* What is nowhere gets its name; or, having a generation, its place without one. */
void store_name(struct store *store, struct entry *entry);
void store_defer(struct store *store, struct entry *entry);
/* It loses its name or place, and keeps its generation; the entry is the caller's. */
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
/* The first deferred buffer above that generation. */
struct entry *store_deferred_after(const struct store *store, uint64_t generation);

#endif
