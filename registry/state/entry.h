/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_ENTRY_H
#define GPUSHARE_REGISTRY_ENTRY_H
/* What is known of one buffer: a record but for its tags, which few have and which take more room than
 * all the rest, and what the registry alone knows. */
#include "os/hash.h"
#include "index.h"
#include "limit.h"
#include "os/process.h"
#include "protocol.h"
#include "tree.h"

struct held;
struct session;
struct user;

/* Fields of a record by their names there; what changes by the moment (what is left of a ttl, what was
 * published) is put in when it is described. */
struct known {
	const char *name;
	uint8_t device_uuid[GPUSHARE_UUID_SIZE];
	uint64_t address;
#define F(type, field) type field;
	INDEX_FIELDS(F)
#undef F
	bool in_limbo;
};

struct entry {
	struct tree_node by_generation;
	struct known info; /* attachers is kept up to date by the sessions */
	gpushare_Tag *tags;
	pb_size_t tags_count;
	enum limit counted;		      /* of `user`: LIMIT_names, LIMIT_limbo */
	uint8_t handle[GPUSHARE_HANDLE_SIZE]; /* leaves in an AttachReply and its record only */
	struct held *held; /* the descriptor of one that travels so; see fdtable.h */
	struct process owner;
	struct session *session; /* NULL: kept, and its owner has gone */
	struct user *user;	 /* among whose names it counts; NULL: it has none so far */
	uint64_t kept_bytes;	 /* what of it counts as kept */
	union {
		struct {
			struct entry *prev, *next; /* of the same session: named, or deferred */
		};
		struct tree_node kept; /* without a session: struct state */
	};
	struct tally *tally;	/* where it is counted; NULL: nowhere */
	uint64_t tallied_bytes; /* as what */
	uint32_t tallied_backing;
	unsigned int told; /* see session.round */
	bool numbered;	   /* it is in by_generation */
	bool nameless;
	bool unsynced;		  /* without a name for that alone */
	unsigned int record_slot; /* see persist/save.h */
	unsigned int indexed;	  /* its place in the index, from 1; 0: it has none */
	int64_t created_ns;
	int64_t deadline_ns; /* of what is kept without a session; INT64_MAX: none */
	/* A search by name reads one cache line of each entry. */
	struct tree_node place; /* by name, or, nameless, by generation */
	char name[];		/* info.name */
};

/* NULL: out of memory. */
struct entry *entry_new(const record *info, const uint8_t *handle);
/* Nobody counts it any more. Returns NULL. */
struct entry *entry_free(struct entry *entry);
/* It is another buffer from now on: what `made` says, of the same name. `made` is gone then. */
void entry_become(struct entry *entry, struct entry *made);
/* These are its tags, and count as its user's: their limit was checked before. false: out of
 * memory, nothing changed. */
bool entry_tag(struct entry *entry, const gpushare_Tag *tags, pb_size_t count);
/* Its bytes count as kept by its user, with or without an owner; and no more. */
void entry_count_kept(struct entry *entry);
void entry_uncount_kept(struct entry *entry);
/* As a record, handle apart. */
void entry_tell(const struct entry *entry, record *out_info);

/* What its flags say. Nobody but its owner's process sees what is staged, and it goes with its owner. */
static inline bool entry_is_kept(uint32_t flags)
{
	return flags & GPUSHARE_FLAG_KEEP;
}

static inline bool entry_is_staged(uint32_t flags)
{
	return flags & GPUSHARE_FLAG_STAGED;
}

static inline bool entry_stays(uint32_t flags)
{
	return entry_is_kept(flags) && !entry_is_staged(flags);
}

#endif
