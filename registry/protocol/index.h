/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_INDEX_H
#define GPUSHARE_REGISTRY_INDEX_H
/*
 * The index: what the registry would answer to a look-up, in memory that the registry writes and
 * its clients map for reading. It is a hash table of names. A bucket says in which slots its
 * records are, and each record has a sequence lock. Slots are assigned from the first one on, so
 * that few pages of memory are used. A client that doesn't find a name here asks the registry: the
 * bucket may be full, and only the registry can say why a name is missing. The index has no handles
 * and no descriptors, so access to it doesn't let a client attach a buffer.
 */
#include "protocol.h"

#define INDEX_VERSION 5
#define INDEX_BUCKETS 8192 /* a power of two */
#define INDEX_TAGS (sizeof(((record *)0)->tags) / sizeof(gpushare_Tag))
#define INDEX_WAYS 16 /* records of one bucket, whose marks take two cache lines */
#define INDEX_SLOTS (INDEX_BUCKETS * INDEX_WAYS)

/* Fields of a record: F(type, name); OWNER(type, name) for those of the owner's process. */
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
	/* only the first tags_count are written and read */
	gpushare_Tag tags[INDEX_TAGS] __attribute__((aligned(8)));
} __attribute__((aligned(8)));

#define INDEX_HEAD_WORDS (offsetof(struct index_record, tags) / 8)
#define INDEX_TAG_WORDS (INDEX_TAGS * sizeof(gpushare_Tag) / 8)
/* The number of 8-byte words that `tags` tags take. */
static inline size_t index_tag_words(uint32_t tags)
{
	size_t room = tags < INDEX_TAGS ? tags : INDEX_TAGS;

	return (room * sizeof(gpushare_Tag) + 7) / 8;
}

struct index_slot {
	_Atomic uint64_t sequence; /* odd: the record or its tags are being written */
	_Atomic uint64_t words[INDEX_HEAD_WORDS];
} __attribute__((aligned(64)));

/* The tags of a record; separate from the record, because few have tags. */
struct index_tags {
	_Atomic uint64_t words[INDEX_TAG_WORDS];
} __attribute__((aligned(64)));

struct index_page {
	uint32_t version;
	uint32_t size;		 /* of this struct: clients check that theirs is the same */
	_Atomic uint32_t closed; /* not 0: the writer no longer serves */
	uint32_t owner_is;	 /* value of `owner` while the writer lives; 0: not set */
	union {
		/* the kernel changes this when the writer dies: observe/pages.c */
		_Atomic uint32_t owner;
		unsigned char lock[64];
	} __attribute__((aligned(64)));
	/* index_mark() of each record in a bucket; 0: no record */
	_Atomic uint64_t marks[INDEX_BUCKETS][INDEX_WAYS] __attribute__((aligned(64)));
	struct index_slot slots[INDEX_SLOTS];
	struct index_tags tags[INDEX_SLOTS];
};

uint64_t index_hash(const char *name);
static inline size_t index_bucket(uint64_t hash)
{
	return hash % INDEX_BUCKETS;
}
/* Upper half: that of the hash, with the lowest bit set, so that no mark is 0. Lower half: the
 * slot. */
static inline uint64_t index_mark(uint64_t hash, uint32_t slot)
{
	return (hash >> 32 | 1) << 32 | slot;
}
static inline uint32_t index_slot_of(uint64_t mark)
{
	return (uint32_t)mark % INDEX_SLOTS;
}

/* Whether the index is valid now: its writer lives and serves. False if unknown. */
bool index_is_live(const struct index_page *page);
/* Finds the record of a name. false: not found; ask the registry. Any number of threads may call
 * this while the registry writes to the page. Bytes after the NUL of the name, and unused tags, are
 * not set. */
bool index_find(const struct index_page *page, const char *name, struct index_record *out_record);

#endif
