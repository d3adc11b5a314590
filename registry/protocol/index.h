/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_INDEX_H
#define GPUSHARE_REGISTRY_INDEX_H
/*
 * The index: what the registry would answer to a look-up, in memory that it writes and that its
 * clients map for reading. A hash table of buckets, which say where a record is; each record is
 * sequence-locked by itself. They lie close together, as few pages are touched as there can be. What
 * is not found here is asked for over the socket: a bucket may be full, and why a name is not there
 * only the registry can say. Nothing in it attaches anything: no handle, no descriptor.
 */
#include "protocol.h"

#define INDEX_VERSION 5
#define INDEX_BUCKETS 8192 /* a power of two */
#define INDEX_TAGS (sizeof(((record *)0)->tags) / sizeof(gpushare_Tag))
#define INDEX_WAYS 16 /* records of one bucket: two cache lines of marks */
#define INDEX_SLOTS (INDEX_BUCKETS * INDEX_WAYS)

/* Fields of a record: F(type, name), and OWNER(type, name) of its owner's process. */
#define INDEX_FIELDS(F, OWNER) \
	F(uint64_t, generation) \
	F(uint64_t, size) \
	F(uint64_t, base_offset) \
	F(uint64_t, base_size) \
	F(uint64_t, created_unix_ns) \
	OWNER(uint64_t, owner_started) \
	F(uint32_t, backing) \
	F(uint32_t, flags) \
	F(uint32_t, ttl_s) \
	F(uint32_t, attachers) \
	OWNER(uint32_t, owner_uid) \
	OWNER(int32_t, owner_pid) \
	F(uint32_t, mode) \
	F(uint32_t, owner_gid) \
	F(bool, owner_gone) \
	F(bool, missing)
#define INDEX_LEAVE_OUT(type, name)

struct index_record {
	char name[GPUSHARE_NAME_MAX + 1];
	char owner_command[GPUSHARE_COMMAND_MAX + 1];
	uint8_t device_uuid[GPUSHARE_UUID_SIZE];
	int64_t deadline_ns; /* CLOCK_MONOTONIC; INT64_MAX: none */
#define F(type, name) type name;
	INDEX_FIELDS(F, F)
#undef F
	uint32_t tags_count;
	/* What isn't used is neither written nor read. */
	gpushare_Tag tags[INDEX_TAGS] __attribute__((aligned(8)));
} __attribute__((aligned(8)));

#define INDEX_HEAD_WORDS (offsetof(struct index_record, tags) / 8)
#define INDEX_TAG_WORDS (INDEX_TAGS * sizeof(gpushare_Tag) / 8)
/* Of so many tags. */
static inline size_t index_tag_words(uint32_t tags)
{
	size_t room = tags < INDEX_TAGS ? tags : INDEX_TAGS;

	return (room * sizeof(gpushare_Tag) + 7) / 8;
}

struct index_slot {
	_Atomic uint64_t sequence; /* odd: it, or its tags, is being written */
	_Atomic uint64_t words[INDEX_HEAD_WORDS];
} __attribute__((aligned(64)));

/* Apart, as few have any. */
struct index_tags {
	_Atomic uint64_t words[INDEX_TAG_WORDS];
} __attribute__((aligned(64)));

struct index_page {
	uint32_t version;
	uint32_t size;		 /* of this struct: both sides were compiled alike */
	_Atomic uint32_t closed; /* the writer serves no more */
	uint32_t owner_is; /* what `owner` holds while the writer lives; 0: that can't be told */
	union {
		_Atomic uint32_t owner; /* the kernel changes it when the writer dies: pages.c */
		unsigned char lock[64];
	} __attribute__((aligned(64)));
	/* Of each record: index_mark() and its slot, 0: none there. */
	_Atomic uint64_t marks[INDEX_BUCKETS][INDEX_WAYS] __attribute__((aligned(64)));
	struct index_slot slots[INDEX_SLOTS];
	struct index_tags tags[INDEX_SLOTS];
};

uint64_t index_hash(const char *name);
static inline size_t index_bucket(uint64_t hash)
{
	return hash % INDEX_BUCKETS;
}
/* The upper half of the hash, never 0; the lower half is the slot. */
static inline uint64_t index_mark(uint64_t hash, uint32_t slot)
{
	return (hash >> 32 | 1) << 32 | slot;
}
static inline uint32_t index_slot_of(uint64_t mark)
{
	return (uint32_t)mark % INDEX_SLOTS;
}

/* Whether what it says holds now: its writer lives and serves. False where that can't be told. */
bool index_is_live(const struct index_page *page);
/* false: ask the registry; it has no address either. Safe while it is written, by any number of
 * threads. What is behind the NUL of the name, and unused tags, are left as they were. */
bool index_find(const struct index_page *page, const char *name, struct index_record *out_record);

#endif
