/* SPDX-License-Identifier: MIT */
#include "shim_live.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

struct node {
	struct live entry;
	UT_hash_handle hh;
};

static struct {
	pthread_mutex_t lock;
	atomic_size_t count;
	struct node *nodes;
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Held for a few instructions only; the limit is for a child forked while it was. */
static bool enter(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec++;
	return !pthread_mutex_clocklock(&table.lock, CLOCK_MONOTONIC, &until);
}

static void count_nodes(void)
{
	atomic_store_explicit(&table.count, HASH_COUNT(table.nodes), memory_order_release);
}

bool live_add(const struct live *entry)
{
	struct node *made = malloc(sizeof(*made)), *old = NULL;
	size_t before;

	if (!made)
		return false;
	made->entry = *entry;
	if (!enter()) {
		free(made);
		return false;
	}
	HASH_REPLACE(hh, table.nodes, entry.pointer, sizeof(uint64_t), made, old);
	before = atomic_load_explicit(&table.count, memory_order_relaxed);
	count_nodes();
	before = HASH_COUNT(table.nodes) - before;
	pthread_mutex_unlock(&table.lock);
	if (!before && !old) { /* uthash found no memory and left the node out */
		free(made);
		return false;
	}
	free(old);
	return true;
}

bool live_any(void)
{
	return atomic_load_explicit(&table.count, memory_order_acquire) != 0;
}

bool live_take(uint64_t pointer, struct live *out_entry)
{
	struct node *found = NULL;

	if (!live_any() || !enter())
		return false;
	HASH_FIND(hh, table.nodes, &pointer, sizeof(pointer), found);
	if (found)
		HASH_DEL(table.nodes, found);
	count_nodes();
	pthread_mutex_unlock(&table.lock);
	if (!found)
		return false;
	*out_entry = found->entry;
	free(found);
	return true;
}
