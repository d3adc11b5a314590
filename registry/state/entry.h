/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ENTRY_H
#define GPUSHARE_REGISTRY_ENTRY_H
/* One buffer: its record, and what only the registry knows. There may be a million of them. */
#include "index.h"
#include "os/process.h"
#include "protocol.h"
#include "state/tree.h"

struct fdref;
struct session;
struct user;

/* An owner's process, which all its entries share. */
struct owner {
	struct process process;
	unsigned int references;
};

/* The fields of a record that don't change by themselves, as a ttl does, and aren't the owner's. */
struct known {
	const char *name;
	uint8_t device_uuid[GPUSHARE_UUID_SIZE];
	uint64_t address;
#define F(type, field) type field;
	INDEX_FIELDS(F, INDEX_LEAVE_OUT)
#undef F
	bool deferred;
};

struct entry {
	struct tree_node by_generation;
	struct known info; /* attachers is kept up to date by the sessions */
	bool nameless;
	bool unsynced; /* without a name because its owner did not name it in its resync */
	pb_size_t tags_count;
	gpushare_Tag *tags;
	uint8_t handle[GPUSHARE_HANDLE_SIZE]; /* leaves in an AttachReply and its record only */
	struct fdref *fdref;		      /* its descriptor, if it travels so */
	struct process *owner;		      /* entry_own() */
	struct session *session;	      /* NULL: kept, and its owner has gone */
	struct user *user;		      /* whose it counts as: users.h; NULL: nobody's */
	union {
		struct {
			struct entry *prev, *next; /* of the same session */
		};
		struct tree_node kept; /* without a session: struct state */
	};
	unsigned int synced;  /* see session.round */
	unsigned int indexed; /* its place in the index, from 1; 0: it has none */
	uint64_t record_slot; /* see persist/save.h */
	int64_t created_ns;
	int64_t deadline_ns; /* of what is kept without a session; INT64_MAX: none */
	/* A search by name reads one cache line of each entry. */
	struct tree_node place; /* by name */
	char name[];		/* info.name */
};

/* One reference. NULL: out of memory. */
struct owner *owner_new(const struct process *process);
void owner_release(struct owner *owner);

/* Without an owner. NULL: out of memory. */
struct entry *entry_new(const record *info, const uint8_t *handle);
void entry_free(struct entry *entry);
/* The buffer is that owner's. */
void entry_own(struct entry *entry, struct owner *owner);
/* The entry is another buffer of the same name from now on: `made`, which is freed. */
void entry_become(struct entry *entry, struct entry *made);
/* These are its tags. false: out of memory, nothing changed. */
bool entry_tag(struct entry *entry, const gpushare_Tag *tags, pb_size_t count);
/* As a record, without the handle. All of *out_info is set but unused tags and the bytes behind a string. */
void entry_describe(const struct entry *entry, record *out_info);

static inline bool entry_is_kept(uint32_t flags)
{
	return flags & GPUSHARE_FLAG_KEEP;
}

/* Only its owner's process sees a staged buffer, and it goes with its owner. */
static inline bool entry_is_staged(uint32_t flags)
{
	return flags & GPUSHARE_FLAG_STAGED;
}

static inline bool entry_stays(uint32_t flags)
{
	return entry_is_kept(flags) && !entry_is_staged(flags);
}

/* What counts as kept, with or without an owner. */
static inline uint64_t entry_kept_bytes(const struct entry *entry)
{
	return entry_is_kept(entry->info.flags) && !entry->nameless ? entry->info.base_size : 0;
}

#endif
