/* SPDX-License-Identifier: MIT */
#include "shim_live.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/client_held.h"
#include "base/shim_lock.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

struct key {
	uint64_t value;	 /* a pointer or a handle */
	uint64_t object; /* 1: a handle */
};

struct node {
	struct live_ended object; /* every node uses its `entry`, whether an object or not */
	struct key key;
	unsigned int handles, mappings; /* only of an object */
	UT_hash_handle hh;
};
_Static_assert(offsetof(struct node, object) == 0, "freed by the object's address");

struct live_places { /* where an object is mapped */
	cu_deviceptr pointer;
	struct node *node;
	struct live_places *next; /* in the list of live_take_places() */
	UT_hash_handle hh;
};

static struct {
	pthread_mutex_t lock;
	atomic_size_t count;   /* entries with a pointer */
	atomic_size_t objects; /* entries without a pointer: objects */
	atomic_size_t managed; /* entries of managed memory */
	size_t shifted;	       /* entries whose pointer is not the start of their mapping */
	struct node *nodes;
	struct live_places *places;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct resync live_resync = RESYNC_INITIALIZER;
atomic_uint live_filter[LIVE_FILTER_SIZE];

static bool is_shifted(const struct live *entry)
{
	return entry->kind != LIVE_OWN && entry->pointer != entry->mapping.pointer;
}

/* Add `more`, which is 1 or -1, to the counts that include this entry. */
static void count(const struct live *entry, int more)
{
	if (live_is_object(entry)) {
		atomic_fetch_add_explicit(&table.objects, (size_t)more, memory_order_release);
		return;
	}
	table.shifted += is_shifted(entry) ? (size_t)more : 0;
	if (entry->managed)
		atomic_fetch_add_explicit(&table.managed, (size_t)more, memory_order_release);
	atomic_fetch_add_explicit(live_filter_of(entry->pointer), (unsigned int)more,
				  memory_order_release);
	atomic_fetch_add_explicit(&table.count, (size_t)more, memory_order_release);
}

static void take_out(struct node *node)
{
	HASH_DEL(table.nodes, node);
	count(&node->object.entry, -1);
}

/* Move the node from the table to the list. */
static void move_out(struct node *node, struct live_ended **list)
{
	take_out(node);
	node->object.entry.reading = resync_readings(&live_resync);
	LL_PREPEND(*list, &node->object);
}

static struct node *find_node(uint64_t value, bool object)
{
	const struct key key = {value, object};
	struct node *found;

	HASH_FIND(hh, table.nodes, &key, sizeof(key), found);
	return found;
}

/* Under the lock. False: uthash had no memory and did not add the node. */
static bool put_in(struct node *made)
{
	size_t before = HASH_COUNT(table.nodes);

	HASH_ADD(hh, table.nodes, key, sizeof(made->key), made);
	if (HASH_COUNT(table.nodes) == before)
		return false;
	count(&made->object.entry, 1);
	return true;
}

/* Drop the object's mappings that are in the table. live_settle_places() handles those that a
 * thread has taken out. */
static void drop_places(struct node *node)
{
	struct live_places *place, *next;

	if (!node->mappings)
		return;
	HASH_ITER (hh, table.places, place, next) {
		if (place->node != node)
			continue;
		HASH_DEL(table.places, place);
		node->mappings--;
		free(place);
	}
}

/* *out_held: the mapping.held of an overwritten entry, for held_drop() after the lock is released.
 * 0: there is none, or the new entry is of the same memory and has it too. */
static bool add(struct node *made, uint64_t *out_held)
{
	struct live *entry = &made->object.entry, *its;
	struct node *old = find_node(made->key.value, made->key.object);
	bool both_ipc, again;

	if (!old)
		return put_in(made);
	its = &old->object.entry;
	both_ipc = its->kind == LIVE_IPC && entry->kind == LIVE_IPC;
	again = both_ipc && its->generation == entry->generation;
	if (both_ipc && !again) /* the same memory under two names: each is detached by itself */
		return put_in(made);
	/* Overwrite the old entry in place: unlike a removal and an addition, that can't fail. */
	*out_held = its->mapping.held == entry->mapping.held ? 0 : its->mapping.held;
	count(entry, 1);
	count(its, -1);
	entry->count += again ? its->count : 0;
	*its = *entry;
	old->handles = 1;
	drop_places(old);
	free(made);
	return true;
}

bool live_add(const struct live *entry)
{
	int error = errno;
	struct node *made = malloc(sizeof(*made));
	uint64_t held = 0;
	bool added = false;

	if (made)
		*made = (struct node){
		    .object.entry = *entry,
		    .key = {live_is_object(entry) ? entry->mapping.handle : entry->pointer,
			    live_is_object(entry)},
		    .handles = 1,
		};
	if (made && lock_take(&table.lock)) {
		made->object.entry.count = 1;
		added = add(made, &held);
		if (entry->name[0])
			resync_check(&live_resync, entry->reading);
		pthread_mutex_unlock(&table.lock);
	}
	held_drop(held);
	if (!added)
		free(made);
	errno = error;
	return added;
}

bool live_any(void)
{
	return atomic_load_explicit(&table.count, memory_order_acquire) != 0;
}

bool live_any_object(void)
{
	return atomic_load_explicit(&table.objects, memory_order_acquire) != 0;
}

static void copy_out(const struct node *node, struct live *out_entry)
{
	*out_entry = node->object.entry;
	out_entry->reading = resync_readings(&live_resync);
}

bool live_take(uint64_t pointer, bool opened, struct live *out_entry)
{
	struct node *found, *gone = NULL;

	if (!live_maybe(pointer) || !lock_take(&table.lock))
		return false;
	found = find_node(pointer, false);
	if (found && (found->object.entry.kind == LIVE_OPENED) != opened)
		found = NULL;
	if (found) {
		found->object.entry.count--;
		copy_out(found, out_entry);
		gone = out_entry->count ? NULL : found;
	}
	if (gone)
		take_out(gone);
	pthread_mutex_unlock(&table.lock);
	free(gone);
	return found != NULL;
}

bool live_open_again(uint64_t generation, struct live *out_entry)
{
	struct node *found;

	if (!live_any() || !lock_take(&table.lock))
		return false;
	for (found = table.nodes; found; found = found->hh.next)
		if (found->object.entry.kind == LIVE_OPENED &&
		    found->object.entry.generation == generation)
			break;
	if (found) {
		found->object.entry.count++;
		*out_entry = found->object.entry;
	}
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

struct live_ended *live_take_of(cu_context context, bool own)
{
	struct live_ended *taken = NULL;
	struct node *node, *next;

	if (!live_any() || !lock_take(&table.lock))
		return NULL;
	HASH_ITER (hh, table.nodes, node, next) {
		const struct live *entry = &node->object.entry;

		if (!live_is_object(entry) && entry->context == context &&
		    live_is_own(entry) == own)
			move_out(node, &taken);
	}
	pthread_mutex_unlock(&table.lock);
	return taken;
}

/* One driver allocation may hold several entries: take the last that begins at or below
 * `pointer`. */
static struct node *find_shifted(uint64_t base, uint64_t pointer)
{
	struct node *node, *next, *best = NULL;

	HASH_ITER (hh, table.nodes, node, next) {
		const struct live *entry = &node->object.entry;
		uint64_t begins = is_shifted(entry) ? entry->mapping.pointer : entry->pointer;

		if (begins == base && !live_is_object(entry) && entry->pointer <= pointer &&
		    (!best || best->object.entry.pointer < entry->pointer))
			best = node;
	}
	return best;
}

bool live_find(uint64_t base, uint64_t pointer, struct live *out_entry)
{
	struct node *found;

	if (!live_any() || !lock_take(&table.lock))
		return false;
	found = table.shifted ? find_shifted(base, pointer) : find_node(base, false);
	if (found)
		*out_entry = found->object.entry;
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

bool live_list_one(struct resync *resync, const struct live *entry)
{
	const struct resync_ref ref = {
	    .generation = entry->generation,
	    .key = live_is_object(entry) ? entry->mapping.handle : entry->pointer,
	    .attached = !live_is_own(entry),
	    .object = live_is_object(entry),
	};

	return !entry->name[0] || resync_add(resync, &ref);
}

bool live_list(struct resync *resync)
{
	bool added = true;

	if (!lock_take(&table.lock))
		return false;
	for (const struct node *node = table.nodes; node; node = node->hh.next)
		added = live_list_one(resync, &node->object.entry) && added;
	pthread_mutex_unlock(&table.lock);
	return added;
}

/* Under the lock. */
static struct node *find_named(const struct resync_ref *ref)
{
	struct node *found = find_node(ref->key, ref->object);

	return found && found->object.entry.generation == ref->generation &&
		       found->object.entry.name[0]
		   ? found
		   : NULL;
}

/* Under the lock: an address where the object is mapped; 0: none. */
static cu_deviceptr place_of(const struct node *node)
{
	const struct live_places *place = table.places;

	while (place && place->node != node)
		place = place->hh.next;
	return place ? place->pointer : 0;
}

bool live_get(const struct resync_ref *ref, struct live *out_entry)
{
	struct node *found;
	cu_deviceptr place = 0;

	if (!ref->object && !live_maybe(ref->key))
		return false;
	if (!lock_take(&table.lock))
		return false;
	found = find_named(ref);
	if (found && ref->object && !found->handles && !(place = place_of(found)))
		found = NULL; /* the object's last mapping is being unmapped */
	if (found)
		copy_out(found, out_entry);
	if (place)
		out_entry->mapping.pointer = place;
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

bool live_rename(const struct resync_ref *ref, uint64_t to)
{
	struct node *found;

	if (!lock_take(&table.lock))
		return false;
	found = find_named(ref);
	if (found && to)
		found->object.entry.generation = to;
	else if (found)
		found->object.entry.name[0] = '\0';
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
		live_count_one(&node->object.entry,
			       node->object.entry.kind == LIVE_OPENED ? 1
								      : node->object.entry.count,
			       out_hold);
	pthread_mutex_unlock(&table.lock);
}

uint64_t live_pooled(cu_mem_pool pool)
{
	uint64_t bytes = 0;

	if (!lock_take(&table.lock))
		return 0;
	for (const struct node *node = table.nodes; node; node = node->hh.next)
		bytes += node->object.entry.pool == pool
			     ? node->object.entry.size * node->object.entry.count
			     : 0;
	pthread_mutex_unlock(&table.lock);
	return bytes;
}

void live_forget_pool(cu_mem_pool pool)
{
	if (!lock_take(&table.lock))
		return;
	for (struct node *node = table.nodes; node; node = node->hh.next)
		if (node->object.entry.pool == pool)
			node->object.entry.pool = NULL;
	pthread_mutex_unlock(&table.lock);
}

bool live_any_managed(void)
{
	return atomic_load_explicit(&table.managed, memory_order_acquire) != 0;
}

bool live_find_managed(uint64_t pointer, uint64_t size, struct live *out_entry)
{
	struct node *found;

	if (!live_any_managed() || !lock_take(&table.lock))
		return false;
	for (found = table.nodes; found; found = found->hh.next) {
		const struct live *entry = &found->object.entry;
		uint64_t offset = pointer - entry->pointer;

		if (entry->managed && offset < entry->size && size <= entry->size - offset)
			break;
	}
	if (found)
		*out_entry = found->object.entry;
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

static struct live_places *find_place(cu_deviceptr pointer)
{
	struct live_places *found;

	HASH_FIND(hh, table.places, &pointer, sizeof(pointer), found);
	return found;
}

/* Under the lock: if the object has no handle and no mapping, move it from the table to
 * `ended`. */
static void end_if_unheld(struct node *node, struct live_ended **ended)
{
	if (!node->handles && !node->mappings)
		move_out(node, ended);
}

/* Each list member is the first member of a struct node, which free() releases as a whole. */
void live_free_ended(struct live_ended *ended)
{
	struct live_ended *each, *next;

	LL_FOREACH_SAFE (ended, each, next) {
		held_drop(each->entry.mapping.held);
		free(each);
	}
}

struct live_ended *live_count_handles(cu_mem_handle handle, int more)
{
	struct live_ended *ended = NULL;
	struct node *node;

	if (!lock_take(&table.lock))
		return NULL;
	node = find_node(handle, true);
	if (node && (more > 0 || node->handles)) {
		node->handles += (unsigned int)more;
		end_if_unheld(node, &ended);
	}
	pthread_mutex_unlock(&table.lock);
	return ended;
}

/* Under the lock. False: uthash had no memory. */
static bool put_place(struct live_places *place)
{
	size_t before = HASH_COUNT(table.places);

	HASH_ADD(hh, table.places, pointer, sizeof(place->pointer), place);
	return HASH_COUNT(table.places) > before;
}

void live_add_place(cu_deviceptr pointer, cu_mem_handle handle)
{
	int error = errno;
	struct live_places *made = calloc(1, sizeof(*made));
	struct node *node;
	bool added = false;

	errno = error;
	if (!made || !lock_take(&table.lock)) {
		free(made);
		return;
	}
	node = find_node(handle, true);
	if (node && !find_place(pointer)) {
		made->pointer = pointer;
		made->node = node;
		added = put_place(made);
		node->mappings += added;
	}
	pthread_mutex_unlock(&table.lock);
	if (!added)
		free(made);
	errno = error;
}

/* One cuMemUnmap may cover several mappings. */
struct live_places *live_take_places(cu_deviceptr pointer, size_t size)
{
	struct live_places *taken = NULL, *place, *next;

	if (!lock_take(&table.lock))
		return NULL;
	HASH_ITER (hh, table.places, place, next) {
		if (place->pointer < pointer || place->pointer - pointer >= size)
			continue;
		HASH_DEL(table.places, place);
		LL_PREPEND(taken, place);
	}
	pthread_mutex_unlock(&table.lock);
	return taken;
}

struct live_ended *live_settle_places(struct live_places *taken, bool gone)
{
	struct live_ended *ended = NULL;
	struct live_places *place, *next;
	bool locked = taken && lock_take(&table.lock);

	LL_FOREACH_SAFE (taken, place, next) {
		if (locked && !gone && put_place(place))
			continue;
		if (locked) {
			place->node->mappings--;
			end_if_unheld(place->node, &ended);
		}
		free(place);
	}
	if (!locked)
		return NULL;
	if (!gone)
		resync_miss(&live_resync); /* live_get() may not have found the objects meanwhile */
	pthread_mutex_unlock(&table.lock);
	return ended;
}
