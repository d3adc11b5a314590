/* SPDX-License-Identifier: MIT */
#include "index.h"

#include <string.h>

#define TRIES 8 /* attempts to read a record that the registry is changing */

_Static_assert(offsetof(struct index_record, tags) % 8 == 0, "no word has bytes of both parts");
_Static_assert(sizeof(((struct index_record *)0)->tags) % 8 == 0, "the last word is whole");
_Static_assert(offsetof(struct index_record, name) == 0, "read_slot() begins with it");
_Static_assert(sizeof(((struct index_record *)0)->name) % 8 == 0, "and continues after it");

/* Hashes eight bytes at a time, and pads the last ones with zeros. */
uint64_t index_hash(const char *name)
{
	size_t length = strlen(name);
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ length;

	while (length) {
		size_t step = length < 8 ? length : 8;
		uint64_t word = 0;

		memcpy(&word, name, step);
		hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 32;
		name += step;
		length -= step;
	}
	hash *= UINT64_C(0xd6e8feb86659fd93);
	return hash ^ hash >> 29;
}

_Static_assert(sizeof(struct changes_page) == 8192, "two pages, for every compiler");

size_t changes_slot(const char *name)
{
	return index_hash(name) % CHANGES_SLOTS;
}

bool index_is_live(const struct index_page *page)
{
	return page->owner_is && !atomic_load_explicit(&page->closed, memory_order_acquire) &&
	       atomic_load_explicit(&page->owner, memory_order_acquire) == page->owner_is;
}

static uint64_t copy_word(const _Atomic uint64_t *words, size_t at, void *to)
{
	uint64_t word = atomic_load_explicit(&words[at], memory_order_relaxed);

	memcpy((char *)to + at * 8, &word, 8);
	return word;
}

static bool has_nul(uint64_t word)
{
	return (word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080);
}

/* Tries once to read a record. false: the registry wrote to the record meanwhile. Reads the name
 * only up to the word with its NUL. */
static bool read_slot(const struct index_page *page, uint32_t at, struct index_record *out_record)
{
	const struct index_slot *slot = &page->slots[at];
	uint64_t before = atomic_load_explicit(&slot->sequence, memory_order_acquire);
	size_t read = 0, count;

	if (before & 1)
		return false;
	while (read < sizeof(out_record->name) / 8 &&
	       !has_nul(copy_word(slot->words, read, out_record)))
		read++;
	for (read = sizeof(out_record->name) / 8; read < INDEX_HEAD_WORDS; read++)
		copy_word(slot->words, read, out_record);
	count = index_tag_words(out_record->tags_count);
	for (read = 0; read < count; read++)
		copy_word(page->tags[at].words, read, out_record->tags);
	atomic_thread_fence(memory_order_acquire);
	return atomic_load_explicit(&slot->sequence, memory_order_relaxed) == before;
}

bool index_find(const struct index_page *page, const char *name, struct index_record *out_record)
{
	uint64_t hash = index_hash(name), wanted = index_mark(hash, 0);
	size_t bucket = index_bucket(hash);

	for (size_t way = 0; way < INDEX_WAYS; way++) {
		uint64_t mark =
		    atomic_load_explicit(&page->marks[bucket][way], memory_order_acquire);

		if ((mark ^ wanted) >> 32)
			continue;
		for (int tries = 0; tries < TRIES; tries++) {
			if (!read_slot(page, index_slot_of(mark), out_record))
				continue;
			/* by now, the slot may hold the record of another name */
			if (!strncmp(out_record->name, name, sizeof(out_record->name)))
				return true;
			break;
		}
	}
	return false;
}
