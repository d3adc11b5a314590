/* SPDX-License-Identifier: MIT */
#include "pages.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/log.h"
#include "state/entry.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* Create shared memory, let `begin` prepare it, and seal it against further writable mappings.
 * NULL: it failed. The memory may stay mapped then, because `begin` may have locked a mutex in
 * it. */
static void *page_open(const char *name, size_t size, bool (*begin)(void *page), int *out_fd)
{
	void *page = MAP_FAILED;
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	*out_fd = fd;
	if (fd >= 0 && !ftruncate(fd, (off_t)size))
		page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page != MAP_FAILED && begin(page) && !fcntl(fd, F_ADD_SEALS, SEALS))
		return page;
	log_line("can't create the page %s: clients send requests instead", name);
	if (fd >= 0)
		close(fd);
	*out_fd = -1;
	return NULL;
}

/* Begin each count at the nanoseconds since boot. A count grows by less than one in a nanosecond,
 * so none equals a count of an earlier registry. */
static bool begin_changes(void *memory)
{
	struct changes_page *page = memory;

	for (size_t i = 0; i < CHANGES_SLOTS; i++)
		atomic_store(&page->count[i], (uint64_t)clock_read_ns(CLOCK_BOOTTIME));
	return true;
}

void changes_init(struct changes *changes)
{
	changes->page =
	    page_open("gpushare-changes", sizeof(*changes->page), begin_changes, &changes->fd);
}

void changes_mark(struct changes *changes, const char *name)
{
	if (changes->page)
		atomic_fetch_add(&changes->page->count[changes_slot(name)], 1);
}

void changes_left(struct changes *changes, uint64_t generation, bool left)
{
	_Atomic uint64_t *at;

	if (!changes->page)
		return;
	at = &changes->page->left[generation % CHANGES_SLOTS];
	if (left)
		atomic_store(at, generation);
	else if (atomic_load(at) == generation)
		atomic_store(at, 0);
}

/* Whether the C library has registered its list of robust mutexes with the kernel. An emulator may
 * not support that. */
static bool kernel_marks_deaths(void)
{
	void *head = NULL;
	size_t size = 0;

	return !syscall(SYS_get_robust_list, 0, &head, &size) && head;
}

/*
 * Lock a robust mutex, which is never unlocked. When the thread that locked it ends, for whatever
 * reason, the kernel changes `owner`, which readers look at. In the C libraries that we know,
 * `owner` is the mutex's first word and holds the thread's id. Otherwise readers can't notice the
 * end, and there is no index.
 */
static bool begin_index(void *memory)
{
	struct index_page *page = memory;
	pthread_mutex_t *lock = (pthread_mutex_t *)page->lock;
	pthread_mutexattr_t attributes;
	bool done;

	_Static_assert(sizeof(pthread_mutex_t) <= sizeof(page->lock), "it has room");
	if (!kernel_marks_deaths() || pthread_mutexattr_init(&attributes))
		return false;
	done = !pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) &&
	       !pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST) &&
	       !pthread_mutex_init(lock, &attributes) && !pthread_mutex_lock(lock);
	pthread_mutexattr_destroy(&attributes);
	page->version = INDEX_VERSION;
	page->size = sizeof(*page);
	page->owner_is = (uint32_t)gettid();
	return done && atomic_load(&page->owner) == page->owner_is;
}

void indexer_init(struct indexer *indexer)
{
	indexer->fd = -1;
	indexer->next = calloc(INDEX_SLOTS, sizeof(*indexer->next));
	if (indexer->next)
		indexer->page =
		    page_open("gpushare-index", sizeof(*indexer->page), begin_index, &indexer->fd);
}

static void describe(const struct entry *entry, struct index_record *out)
{
	const struct process *owner = entry_owner(entry);
	const struct known *info = &entry->info;

	*out = (struct index_record){.deadline_ns = entry->deadline_ns};
#define F(type, field) out->field = info->field;
	INDEX_FIELDS(F, INDEX_LEAVE_OUT)
#undef F
	strcpy(out->name, entry->name);
	strcpy(out->owner_command, owner->command);
	out->owner_started = owner->started;
	out->owner_uid = owner->uid;
	out->owner_pid = owner->pid;
	memcpy(out->device_uuid, info->device_uuid, sizeof(out->device_uuid));
	out->tags_count = entry->info.tags_count;
	if (entry->info.tags_count)
		memcpy(out->tags, entry->tags, entry->info.tags_count * sizeof(*entry->tags));
}

static void write_words(_Atomic uint64_t *words, const void *from, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t word;

		memcpy(&word, (const char *)from + i * 8, 8);
		atomic_store_explicit(&words[i], word, memory_order_relaxed);
	}
}

static void write_slot(struct index_page *page, uint32_t at, const struct index_record *what)
{
	struct index_slot *slot = &page->slots[at];
	uint64_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed);

	atomic_store_explicit(&slot->sequence, sequence + 1, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	write_words(slot->words, what, INDEX_HEAD_WORDS);
	write_words(page->tags[at].words, what->tags, index_tag_words(what->tags_count));
	atomic_store_explicit(&slot->sequence, sequence + 2, memory_order_release);
}

static _Atomic uint64_t *mark_of(struct index_page *page, unsigned int place)
{
	return &page->marks[place / INDEX_WAYS][place % INDEX_WAYS];
}

/* There are as many slots as marks, so if a mark is free, a slot is free. */
static uint32_t take_slot(struct indexer *indexer)
{
	uint32_t slot = indexer->left - 1;

	if (!indexer->left)
		return indexer->used++;
	indexer->left = indexer->next[slot];
	return slot;
}

void indexer_put(struct indexer *indexer, struct entry *entry)
{
	struct index_page *page = indexer->page;
	struct index_record what;
	uint64_t hash;
	uint32_t slot;

	if (entry->indexed || !page) {
		indexer_update(indexer, entry);
		return;
	}
	hash = index_hash(entry->name);
	for (unsigned int way = 0; way < INDEX_WAYS; way++) {
		unsigned int place = (unsigned int)index_bucket(hash) * INDEX_WAYS + way;

		if (atomic_load(mark_of(page, place)))
			continue;
		slot = take_slot(indexer);
		describe(entry, &what);
		write_slot(page, slot, &what);
		atomic_store_explicit(mark_of(page, place), index_mark(hash, slot),
				      memory_order_release);
		entry->indexed = place + 1;
		return;
	}
}

static uint32_t slot_of(const struct indexer *indexer, const struct entry *entry)
{
	return index_slot_of(atomic_load(mark_of(indexer->page, entry->indexed - 1)));
}

void indexer_update(struct indexer *indexer, const struct entry *entry)
{
	struct index_record what;

	if (!entry->indexed)
		return;
	describe(entry, &what);
	write_slot(indexer->page, slot_of(indexer, entry), &what);
}

/* Clear the record before the mark: a reader may have found the mark already. */
void indexer_remove(struct indexer *indexer, struct entry *entry)
{
	static const struct index_record none;
	uint32_t slot;

	if (!entry->indexed)
		return;
	slot = slot_of(indexer, entry);
	write_slot(indexer->page, slot, &none);
	atomic_store_explicit(mark_of(indexer->page, entry->indexed - 1), 0, memory_order_release);
	indexer->next[slot] = indexer->left;
	indexer->left = slot + 1;
	entry->indexed = 0;
}
