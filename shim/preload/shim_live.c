/* SPDX-License-Identifier: MIT */
#include "shim_live.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/shim_lock.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct node {
	struct live entry;
	UT_hash_handle hh;
};

static struct {
	pthread_mutex_t lock;
	atomic_size_t count;
	atomic_size_t managed; /* entries of managed memory */
	size_t shifted;	       /* entries that begin behind the start of their mapping */
	struct node *nodes;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct resync live_resync = RESYNC_INITIALIZER;
atomic_uint live_filter[LIVE_FILTER_SIZE];

static bool is_shifted(const struct live *entry)
{
	return entry->kind != LIVE_OWN && entry->pointer != entry->mapping.pointer;
}

static void count_in(const struct node *node)
{
	table.shifted += is_shifted(&node->entry);
	atomic_fetch_add_explicit(&table.managed, node->entry.managed, memory_order_release);
	atomic_fetch_add_explicit(live_filter_of(node->entry.pointer), 1, memory_order_release);
	atomic_fetch_add_explicit(&table.count, 1, memory_order_release);
}

static void take_out(struct node *node)
{
	HASH_DEL(table.nodes, node);
	table.shifted -= is_shifted(&node->entry);
	atomic_fetch_sub_explicit(&table.managed, node->entry.managed, memory_order_release);
	atomic_fetch_sub_explicit(live_filter_of(node->entry.pointer), 1, memory_order_release);
	atomic_fetch_sub_explicit(&table.count, 1, memory_order_release);
}

static struct node *find_node(uint64_t pointer)
{
	struct node *found;

	HASH_FIND(hh, table.nodes, &pointer, sizeof(pointer), found);
	return found;
}

/* Under the lock. False: uthash had no memory and did not add the node. */
static bool put_in(struct node *made)
{
	size_t before = HASH_COUNT(table.nodes);

	HASH_ADD(hh, table.nodes, entry.pointer, sizeof(uint64_t), made);
	if (HASH_COUNT(table.nodes) == before)
		return false;
	count_in(made);
	return true;
}

/* Overwrite the old entry in place: unlike a removal and an addition, that can't fail. */
static void replace(struct node *old, const struct live *entry)
{
	bool again = old->entry.kind == LIVE_IPC && entry->kind == LIVE_IPC &&
		     old->entry.generation == entry->generation;
	unsigned int before = again ? old->entry.count : 0;

	table.shifted -= is_shifted(&old->entry);
	atomic_fetch_sub_explicit(&table.managed, old->entry.managed, memory_order_release);
	old->entry = *entry;
	old->entry.count = before + 1;
	table.shifted += is_shifted(entry);
	atomic_fetch_add_explicit(&table.managed, entry->managed, memory_order_release);
}

bool live_add(const struct live *entry)
{
	struct node *made = malloc(sizeof(*made)), *old;
	bool added = true;

	if (!made)
		return false;
	made->entry = *entry;
	made->entry.count = 1;
	if (!lock_take(&table.lock)) {
		free(made);
		return false;
	}
	old = find_node(entry->pointer);
	if (old && old->entry.kind == LIVE_IPC && entry->kind == LIVE_IPC &&
	    old->entry.generation != entry->generation)
		old = NULL; /* the same memory under another name: each is freed by itself */
	if (old)
		replace(old, entry);
	else
		added = put_in(made);
	if (entry->name[0])
		resync_check(&live_resync, entry->reading);
	pthread_mutex_unlock(&table.lock);
	if (old || !added)
		free(made);
	return added;
}

bool live_any(void)
{
	return atomic_load_explicit(&table.count, memory_order_acquire) != 0;
}

static void copy_out(const struct node *node, struct live *out_entry)
{
	*out_entry = node->entry;
	out_entry->reading = resync_readings(&live_resync);
}

/* Returns the node if it left the table; the caller frees it. NULL: the count is above 0. */
static struct node *count_down(struct node *node, struct live *out_entry)
{
	node->entry.count--;
	copy_out(node, out_entry);
	if (node->entry.count)
		return NULL;
	take_out(node);
	return node;
}

static bool take(uint64_t pointer, bool opened, struct live *out_entry)
{
	struct node *found, *gone = NULL;

	if (!live_maybe(pointer) || !lock_take(&table.lock))
		return false;
	found = find_node(pointer);
	if (found && (found->entry.kind == LIVE_OPENED) != opened)
		found = NULL;
	if (found)
		gone = count_down(found, out_entry);
	pthread_mutex_unlock(&table.lock);
	free(gone);
	return found != NULL;
}

bool live_take(uint64_t pointer, struct live *out_entry)
{
	return take(pointer, false, out_entry);
}

bool live_take_opened(uint64_t pointer, struct live *out_entry)
{
	return take(pointer, true, out_entry);
}

bool live_open_again(uint64_t generation, struct live *out_entry)
{
	struct node *node, *next, *found = NULL;

	if (!live_any() || !lock_take(&table.lock))
		return false;
	HASH_ITER (hh, table.nodes, node, next) {
		if (node->entry.kind != LIVE_OPENED || node->entry.generation != generation)
			continue;
		found = node;
		found->entry.count++;
		*out_entry = found->entry;
		break;
	}
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

bool live_take_of(cu_context context, bool own, struct live *out_entry)
{
	struct node *node, *next, *gone = NULL;

	if (!live_any() || !lock_take(&table.lock))
		return false;
	HASH_ITER (hh, table.nodes, node, next) {
		if (node->entry.context != context || (node->entry.kind == LIVE_OWN) != own)
			continue;
		copy_out(node, out_entry);
		take_out(node);
		gone = node;
		break;
	}
	pthread_mutex_unlock(&table.lock);
	free(gone);
	return gone != NULL;
}

bool live_unname_of(cu_context context, struct live *out_entry)
{
	struct node *node, *next, *found = NULL;

	if (!live_any() || !lock_take(&table.lock))
		return false;
	HASH_ITER (hh, table.nodes, node, next) {
		if (node->entry.context != context || node->entry.kind != LIVE_OWN_VMM ||
		    !node->entry.name[0])
			continue;
		found = node;
		*out_entry = node->entry;
		node->entry.name[0] = '\0';
		break;
	}
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

/* One driver allocation may hold several entries: take the last that is not above `pointer`. */
static struct node *find_shifted(uint64_t base, uint64_t pointer)
{
	struct node *node, *next, *best = NULL;

	HASH_ITER (hh, table.nodes, node, next) {
		uint64_t begins =
		    is_shifted(&node->entry) ? node->entry.mapping.pointer : node->entry.pointer;

		if (begins == base && node->entry.pointer <= pointer &&
		    (!best || best->entry.pointer < node->entry.pointer))
			best = node;
	}
	return best;
}

bool live_find(uint64_t base, uint64_t pointer, struct live *out_entry)
{
	struct node *found;

	if (!live_any() || !lock_take(&table.lock))
		return false;
	found = table.shifted ? find_shifted(base, pointer) : find_node(base);
	if (found)
		*out_entry = found->entry;
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

bool live_list_one(struct resync *resync, const struct live *entry, uint64_t handle)
{
	const struct resync_ref ref = {
	    .generation = entry->generation,
	    .key = handle ? handle : entry->pointer,
	    .attached = !live_is_own(entry),
	    .object = handle != 0,
	};

	return !entry->name[0] || resync_add(resync, &ref);
}

bool live_list(struct resync *resync)
{
	bool added = true;

	if (!lock_take(&table.lock))
		return false;
	for (const struct node *node = table.nodes; node; node = node->hh.next)
		added = live_list_one(resync, &node->entry, 0) && added;
	pthread_mutex_unlock(&table.lock);
	return added;
}

bool live_get(uint64_t pointer, uint64_t generation, struct live *out_entry)
{
	struct node *found;

	if (!live_maybe(pointer) || !lock_take(&table.lock))
		return false;
	found = find_node(pointer);
	if (found && (found->entry.generation != generation || !found->entry.name[0]))
		found = NULL;
	if (found)
		copy_out(found, out_entry);
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

bool live_rename(uint64_t pointer, uint64_t generation, uint64_t to)
{
	struct node *found;

	if (!lock_take(&table.lock))
		return false;
	found = find_node(pointer);
	if (found && (found->entry.generation != generation || !found->entry.name[0]))
		found = NULL;
	if (found && to)
		found->entry.generation = to;
	else if (found)
		found->entry.name[0] = '\0';
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

void live_count_one(const struct live *entry, unsigned int count, gpushare_Hold *out_hold)
{
	if (entry->generation != out_hold->generation || live_is_own(entry) || !entry->name[0])
		return;
	strcpy(out_hold->name, entry->name);
	out_hold->count += count;
}

/* A LIVE_OPENED entry counts its opens, but is one attachment (ipc_open()). */
void live_count(gpushare_Hold *out_hold)
{
	if (!lock_take(&table.lock))
		return;
	for (const struct node *node = table.nodes; node; node = node->hh.next)
		live_count_one(&node->entry,
			       node->entry.kind == LIVE_OPENED ? 1 : node->entry.count, out_hold);
	pthread_mutex_unlock(&table.lock);
}

uint64_t live_pooled(unsigned int pool)
{
	uint64_t bytes = 0;

	if (!lock_take(&table.lock))
		return 0;
	for (const struct node *node = table.nodes; node; node = node->hh.next)
		bytes += node->entry.pool == pool ? node->entry.size * node->entry.count : 0;
	pthread_mutex_unlock(&table.lock);
	return bytes;
}

bool live_any_managed(void)
{
	return atomic_load_explicit(&table.managed, memory_order_acquire) != 0;
}

bool live_find_managed(uint64_t pointer, uint64_t size, struct live *out_entry)
{
	struct node *node, *next, *found = NULL;

	if (!live_any_managed() || !lock_take(&table.lock))
		return false;
	HASH_ITER (hh, table.nodes, node, next) {
		const struct live *entry = &node->entry;

		if (entry->managed && pointer >= entry->pointer &&
		    pointer - entry->pointer < entry->size &&
		    size <= entry->size - (pointer - entry->pointer))
			found = node;
	}
	if (found)
		*out_entry = found->entry;
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}
