/* SPDX-License-Identifier: MIT */
#include "shim_objects.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/client_held.h"
#include "base/shim_lock.h"
#include "shim_pages.h"
#include "shim_process.h"
#include "shim_share.h"

#define HASH_NONFATAL_OOM 1
#include <uthash.h>
#include <utlist.h>

struct node {
	struct object object;
	unsigned int handles, mappings;
	UT_hash_handle hh;
};

struct places {
	cu_deviceptr pointer;
	struct node *node;
	struct places *next; /* in the list of objects_take_places() */
	UT_hash_handle hh;
};

static struct {
	pthread_mutex_t lock;
	atomic_size_t count;
	struct node *nodes;
	struct places *places;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

bool objects_concern(void)
{
	return atomic_load_explicit(&table.count, memory_order_acquire) && process_is_mine();
}

static struct node *find_node(cu_mem_handle handle)
{
	struct node *found;

	HASH_FIND(hh, table.nodes, &handle, sizeof(handle), found);
	return found;
}

static struct places *find_place(cu_deviceptr pointer)
{
	struct places *found;

	HASH_FIND(hh, table.places, &pointer, sizeof(pointer), found);
	return found;
}

/* Under the lock. False: uthash had no memory and did not add the node. */
static bool put_in(struct node *made)
{
	size_t before = HASH_COUNT(table.nodes);

	HASH_ADD(hh, table.nodes, object.entry.mapping.handle, sizeof(cu_mem_handle), made);
	if (HASH_COUNT(table.nodes) == before)
		return false;
	atomic_fetch_add_explicit(&table.count, 1, memory_order_release);
	return true;
}

bool objects_add(const struct live *entry)
{
	int error = errno;
	struct node *made = calloc(1, sizeof(*made));
	bool added = false;

	if (made) {
		made->object.entry = *entry;
		made->handles = 1;
	}
	if (made && lock_take(&table.lock)) {
		added = put_in(made);
		resync_check(&live_resync, entry->reading);
		pthread_mutex_unlock(&table.lock);
	}
	if (!added)
		free(made);
	errno = error;
	return added;
}

/* Under the lock: if it has no handle and no mapping, move the object from the table to `ended`. */
static void end_if_unheld(struct node *node, struct object **ended)
{
	if (node->handles || node->mappings)
		return;
	HASH_DEL(table.nodes, node);
	node->object.entry.reading = resync_readings(&live_resync);
	atomic_fetch_sub_explicit(&table.count, 1, memory_order_release);
	LL_PREPEND(*ended, &node->object);
}

void objects_tell_ended(const struct object *ended, bool attached)
{
	const struct object *each;

	LL_FOREACH (ended, each) {
		const struct live *entry = &each->entry;

		if (live_is_own(entry) == attached)
			continue;
		if (attached) {
			share_left(entry);
			continue;
		}
		pages_publish_ended(entry->generation);
		share_end(entry->name, entry->generation);
	}
}

/* free() releases the whole node: the object is its first member. */
void objects_free(struct object *ended)
{
	struct object *each, *next;

	LL_FOREACH_SAFE (ended, each, next) {
		held_drop(each->entry.mapping.held);
		free(each);
	}
}
_Static_assert(offsetof(struct node, object) == 0, "freed by the object's address");

struct object *objects_drop_handle(cu_mem_handle handle)
{
	struct object *ended = NULL;
	struct node *node;

	if (!lock_take(&table.lock))
		return NULL;
	node = find_node(handle);
	if (node && node->handles) {
		node->handles--;
		end_if_unheld(node, &ended);
	}
	pthread_mutex_unlock(&table.lock);
	return ended;
}

void objects_add_handle(cu_mem_handle handle)
{
	struct node *node;

	if (!lock_take(&table.lock))
		return;
	node = find_node(handle);
	if (node)
		node->handles++;
	pthread_mutex_unlock(&table.lock);
}

void objects_add_place(cu_deviceptr pointer, cu_mem_handle handle)
{
	int error = errno;
	struct places *made = calloc(1, sizeof(*made));
	struct node *node;
	size_t before;
	bool added = false;

	errno = error;
	if (!made || !lock_take(&table.lock)) {
		free(made);
		return;
	}
	node = find_node(handle);
	if (node && !find_place(pointer)) {
		made->pointer = pointer;
		made->node = node;
		before = HASH_COUNT(table.places);
		HASH_ADD(hh, table.places, pointer, sizeof(made->pointer), made);
		added = HASH_COUNT(table.places) > before;
		node->mappings += added;
	}
	pthread_mutex_unlock(&table.lock);
	if (!added)
		free(made);
	errno = error;
}

/* One cuMemUnmap may cover several mappings. */
struct places *objects_take_places(cu_deviceptr pointer, size_t size)
{
	struct places *taken = NULL, *place, *next;

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

struct object *objects_settle_places(struct places *taken, bool gone)
{
	struct object *ended = NULL;
	struct places *place, *next;

	if (!taken || !lock_take(&table.lock))
		return NULL;
	LL_FOREACH_SAFE (taken, place, next) {
		if (!gone) {
			HASH_ADD(hh, table.places, pointer, sizeof(place->pointer), place);
			continue;
		}
		place->node->mappings--;
		end_if_unheld(place->node, &ended);
		free(place);
	}
	pthread_mutex_unlock(&table.lock);
	return ended;
}

void objects_count(gpushare_Hold *out_hold)
{
	struct node *node, *next;

	if (!lock_take(&table.lock))
		return;
	HASH_ITER (hh, table.nodes, node, next) {
		live_count_one(&node->object.entry, 1, out_hold);
	}
	pthread_mutex_unlock(&table.lock);
}

bool objects_list(struct resync *resync)
{
	struct node *node, *next;
	bool added = true;

	if (!lock_take(&table.lock))
		return false;
	HASH_ITER (hh, table.nodes, node, next) {
		const struct live *entry = &node->object.entry;

		added = live_list_one(resync, entry, entry->mapping.handle) && added;
	}
	pthread_mutex_unlock(&table.lock);
	return added;
}

/* Under the lock. */
static struct node *find_named(cu_mem_handle handle, uint64_t generation)
{
	struct node *found = find_node(handle);

	return found && found->object.entry.generation == generation && found->object.entry.name[0]
		   ? found
		   : NULL;
}

/* Under the lock: an address where it is mapped; 0: none. */
static cu_deviceptr place_of(const struct node *node)
{
	struct places *place, *next;

	HASH_ITER (hh, table.places, place, next) {
		if (place->node == node)
			return place->pointer;
	}
	return 0;
}

bool objects_get(cu_mem_handle handle, uint64_t generation, struct live *out_entry)
{
	struct node *found;

	if (!lock_take(&table.lock))
		return false;
	found = find_named(handle, generation);
	if (found) {
		*out_entry = found->object.entry;
		if (!found->handles)
			out_entry->mapping.pointer = place_of(found);
	}
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}

bool objects_get_mapped(cu_deviceptr pointer, size_t size, uint64_t generation,
			struct live *out_entry)
{
	struct places *place, *next;
	bool found = false;

	if (!lock_take(&table.lock))
		return false;
	HASH_ITER (hh, table.places, place, next) {
		const struct live *entry = &place->node->object.entry;

		if (place->pointer < pointer || place->pointer - pointer >= size ||
		    entry->generation != generation || !entry->name[0])
			continue;
		*out_entry = *entry;
		found = true;
		break;
	}
	pthread_mutex_unlock(&table.lock);
	return found;
}

bool objects_rename(cu_mem_handle handle, uint64_t generation, uint64_t to)
{
	struct node *found;

	if (!lock_take(&table.lock))
		return false;
	found = find_named(handle, generation);
	if (found && to)
		found->object.entry.generation = to;
	else if (found)
		found->object.entry.name[0] = '\0';
	pthread_mutex_unlock(&table.lock);
	return found != NULL;
}
