/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ENTRY_H
#define GPUSHARE_REGISTRY_ENTRY_H
/* One buffer: its record, and what only the registry knows. There may be a million of them, all in
 * struct store. */
#include "index.h"
#include "os/process.h"
#include "protocol.h"
#include "state/tree.h"

struct fdref;
struct session;
struct user;

/* The fields of a record (Buffer in registry.proto), except those of the owner and those that
 * change by themselves, such as the remaining ttl. `nameless` and `unsynced` are the registry's
 * own; here they take no further bytes. */
struct known {
	uint8_t device_uuid[GPUSHARE_UUID_SIZE];
	uint64_t address;
#define F(type, field) type field;
	INDEX_FIELDS(F, INDEX_LEAVE_OUT)
#undef F
	bool deferred;
	bool nameless;
	bool unsynced; /* without a name because its owner's resync did not mention it */
	pb_size_t tags_count;
};

struct entry {
	struct tree_node by_generation;
	struct known info;  /* buffer.c maintains info.attachers */
	gpushare_Tag *tags; /* info.tags_count */
	/* only ever copied, into an AttachReply and the saved record */
	uint8_t handle[GPUSHARE_HANDLE_SIZE];
	union {
		struct fdref *fdref; /* the buffer's descriptor; NULL: it has none */
		uint64_t stored;     /* while records are read: fdref->stored */
	};
	struct session *session; /* NULL: kept without an owner */
	struct process *parted;	 /* a copy of a former session's peer; NULL: none */
	struct user *user;	 /* who is charged for it (users.h); NULL: nobody */
	union {
		struct {
			struct entry *prev, *next; /* list of the session's entries */
		};
		struct tree_node kept; /* without a session: in state.kept */
	};
	unsigned int synced;  /* see session.round */
	unsigned int indexed; /* place in the index, from 1; 0: none */
	uint64_t record_slot; /* see persist/persist.h */
	int64_t deadline_ns;  /* when a buffer without a session expires; INT64_MAX: never */
	/* place and name lie together: a search by name reads one cache line of each entry. */
	struct tree_node place; /* by name */
	char name[];
};

/* The entry has no owner, and is in no store. NULL: out of memory. */
struct entry *entry_new(const record *info, const uint8_t *handle);
void entry_free(struct entry *entry);
/* The session's peer, or the copy that entry_part() made. If there was no memory for the copy, the
 * user's `nobody`. */
const struct process *entry_owner(const struct entry *entry);
/* The owner's session ends: keep a copy of *owner. */
void entry_part(struct entry *entry, const struct process *owner);
/* Replace the tags. false: out of memory, nothing changed. */
bool entry_tag(struct entry *entry, const gpushare_Tag *tags, pb_size_t count);
/* Fill in a record, without the handle. Unused tags, and the bytes after a string's NUL, stay
 * unset. */
void entry_describe(const struct entry *entry, record *out_info);

static inline bool entry_is_kept(uint32_t flags)
{
	return flags & GPUSHARE_FLAG_KEEP;
}

/* Only its owner's process sees a staged buffer. It is removed when its owner leaves, even with
 * KEEP. */
static inline bool entry_is_staged(uint32_t flags)
{
	return flags & GPUSHARE_FLAG_STAGED;
}

static inline bool entry_stays(uint32_t flags)
{
	return entry_is_kept(flags) && !entry_is_staged(flags);
}

/* Bytes that count against the limit kept_bytes, with or without an owner. */
static inline uint64_t entry_kept_bytes(const struct entry *entry)
{
	return entry_is_kept(entry->info.flags) && !entry->info.nameless
		   ? held_bytes(entry->info.size, entry->info.base_size)
		   : 0;
}

/* Buffers by name and by generation. A deferred or unlinked buffer has no name. */
struct store {
	struct tree names;
	struct tree generations; /* also of buffers without a name */
};

void store_init(struct store *store);
/* Give the entry its name, which must be free, or take the name away. */
void store_name(struct store *store, struct entry *entry);
void store_unname(struct store *store, struct entry *entry);
void store_remove(struct store *store, struct entry *entry);
/* Give a generation to the entry, which must have none. */
void store_number(struct store *store, struct entry *entry, uint64_t generation);

struct entry *store_find(const struct store *store, const char *name);
/* store_find_generation(): with a name or without. store_find_deferred(): only without a name. */
struct entry *store_find_generation(const struct store *store, uint64_t generation);
struct entry *store_find_deferred(const struct store *store, uint64_t generation);
/* The first buffer above that generation, with a name or without. NULL past the end. */
struct entry *store_next(const struct store *store, uint64_t generation);
/* All buffers, with a name or without; the body must not remove `entry`. */
#define STORE_FOREACH(store, entry) \
	for (entry = store_next(store, 0); entry; entry = store_next(store, entry->info.generation))

#endif
