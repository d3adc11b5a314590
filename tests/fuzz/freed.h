/* SPDX-License-Identifier: MIT */
#ifndef TESTS_FUZZ_FREED_H
#define TESTS_FUZZ_FREED_H
/*
 * A daemon's registry ends with its process. These functions free one of many registries in a
 * process; its files stay.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "order/order.h"
#include "persist/records.h"

static inline void free_users(struct users *users)
{
	struct user *user, *after;

	HASH_ITER (hh, users->by_uid, user, after) {
		HASH_DEL(users->by_uid, user);
		free(user);
	}
}

static inline void free_pages(struct changes *changes, struct indexer *index)
{
	if (changes->page) {
		munmap(changes->page, sizeof(*changes->page));
		close(changes->fd);
	}
	if (!index->page)
		return;
	pthread_mutex_unlock((pthread_mutex_t *)index->page->lock);
	munmap(index->page, sizeof(*index->page));
	close(index->fd);
	free(index->next);
}

static inline void disconnect(struct registry *registry, struct session *session)
{
	state_leave(&registry->state, session);
	registry_end(registry, INT64_MAX);
}

static inline void registry_free(struct registry *registry)
{
	struct order *order, *after;
	struct entry *kept;

	order_unmap_all(registry);
	registry->records = records_close(registry->records, true);
	while (registry->state.sessions.by_id)
		disconnect(registry, registry->state.sessions.by_id);
	HASH_ITER (hh, registry->orders, order, after) {
		order_free(registry, order);
	}
	while ((kept = buffer_next_kept(&registry->state, NULL)))
		buffer_remove(&registry->state, kept, DEPARTURE_OWNER_GONE);
	free_users(&registry->state.users);
	free_pages(&registry->changes, &registry->index);
	pthread_mutex_destroy(&registry->lock);
	free(registry);
}

#endif
