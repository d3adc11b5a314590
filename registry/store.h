/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STORE_H
#define GPUSHARE_REGISTRY_STORE_H
/* Names and what is known of each. Found by hash, walked in byte order. */
#include "changes.h"
#include "hash.h"
#include "indexer.h"
#include "limit.h"
#include "ordered.h"
#include "process.h"
#include "protocol.h"

struct held;
struct lease;
struct user;

struct entry {
	record info;			      /* attachers is kept up to date by the leases */
	uint8_t handle[GPUSHARE_HANDLE_SIZE]; /* leaves in an AttachReply and the journal only */
	struct held *held; /* the descriptor of one that travels so; see vault.h */
	struct process owner;
	struct lease *lease; /* NULL: kept, and its owner has gone */
	struct user *user;   /* among whose names it counts; NULL: it has none so far */
	enum limit counted;  /* there: LIMIT_names, LIMIT_limbo */
	uint64_t kept_bytes; /* what of it counts as kept */
	struct entry *prev,
	    *next;   /* of the same lease (named, or in limbo), or of what is kept without one */
	bool told;   /* see lease.retelling */
	bool untold; /* without a name for that alone */
	unsigned int noted;   /* see note.h */
	unsigned int indexed; /* its place in the index, from 1; 0: it has none */
	int64_t created_ns;
	int64_t deadline_ns; /* of what is kept without a lease; INT64_MAX: none */
	UT_hash_handle hh;
	UT_hash_handle by_generation; /* .tbl is NULL where there was no memory */
};

struct store {
	struct changes changes;
	struct indexer index;
	struct entry *by_name;
	struct entry *by_generation;
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
