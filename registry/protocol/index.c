/* SPDX-License-Identifier: MIT */
#include "index.h"

#include <string.h>

#define TRIES 8 /* at a record that is written meanwhile */

_Static_assert(sizeof(struct index_record) % 8 == 0, "no byte of the last word is undefined");

/* FNV-1a, its upper half mixed in. */
uint64_t index_hash(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	while (*name)
		hash = (hash ^ (uint8_t)*name++) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 29;
}

bool index_is_live(const struct index_page *page)
{
	return page->owner_is && !atomic_load_explicit(&page->closed, memory_order_acquire) &&
	       atomic_load_explicit(&page->owner, memory_order_acquire) == page->owner_is;
}

/* One try; false: it was written meanwhile. */
static bool read_slot(const struct index_slot *slot, struct index_record *out_record)
{
	uint64_t before = atomic_load_explicit(&slot->sequence, memory_order_acquire);
	uint64_t words[INDEX_WORDS];
	size_t read = 0, count = index_words(0);
	uint32_t tags;

	if (before & 1)
		return false;
	while (read < count) {
		for (; read < count; read++)
			words[read] =
			    atomic_load_explicit(&slot->words[read], memory_order_relaxed);
		memcpy(&tags, (char *)words + offsetof(struct index_record, tags_count),
		       sizeof(tags));
		count = index_words(tags);
	}
	atomic_thread_fence(memory_order_acquire);
	if (atomic_load_explicit(&slot->sequence, memory_order_relaxed) != before)
		return false;
	memcpy(out_record, words, count * sizeof(*words));
	return true;
}

bool index_find(const struct index_page *page, const char *name, struct index_record *out_record)
{
	uint64_t hash = index_hash(name);
	size_t bucket = index_bucket(hash);

	for (size_t way = 0; way < INDEX_WAYS; way++) {
		if (atomic_load_explicit(&page->marks[bucket][way], memory_order_acquire) !=
		    index_mark(hash))
			continue;
		for (int tries = 0; tries < TRIES; tries++) {
			if (!read_slot(&page->slots[bucket][way], out_record))
				continue;
			/* it may be another's by now */
			if (!strncmp(out_record->name, name, sizeof(out_record->name)))
				return true;
			break;
		}
	}
	return false;
}
