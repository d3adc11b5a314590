/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STORE_H
#define GPUSHARE_REGISTRY_STORE_H
/* Names and what is known of each. Found by hash, walked in byte order. */
#include "entry.h"
#include "ordered.h"

struct store {
	struct entry *by_name[HASH_PARTS];
	struct entry *by_generation[HASH_PARTS];
	struct ordered ordered;
	size_t count;
};

void store_init(struct store *store);
void store_finish(struct store *store);
/* `name` must be free. NULL: out of memory, nothing changed. */
struct entry *store_add(struct store *store, const record *info, const uint8_t *handle);
/* Give it that generation. */
void store_number(struct store *store, struct entry *entry, uint64_t generation);
struct entry *store_find_generation(const struct store *store, uint64_t generation);
void store_remove(struct store *store, struct entry *entry);
/* The name is free; the entry is the caller's. */
void store_take(struct store *store, struct entry *entry);
struct entry *store_find(const struct store *store, const char *name);
/* The position of the first name above `after`; "" for the beginning. */
size_t store_seek(const struct store *store, const char *after);
/* NULL past the end. */
struct entry *store_at(const struct store *store, size_t position);

#endif
