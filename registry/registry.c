/* SPDX-License-Identifier: MIT */
#include "context/registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>

#include "os/clock.h"
#include "fdstore/fdstore.h"
#include "persist/records.h"
#include "os/log.h"
#include "persist/persist.h"
#include "order/order.h"

#define SPIN_NS 10000 /* about the time that a thread takes to sleep and to be woken */

static void set_time(struct registry *registry)
{
	registry->locked_ns = registry->state.now_ns = clock_ns();
	registry->state.unix_ns = clock_unix_ns();
}

struct registry *registry_new(void)
{
	struct registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return NULL;
	pthread_mutex_init(&registry->lock, NULL);
	pthread_mutex_init(&registry->queue, NULL);
	registry->wake = -1;
	registry->started_unix_ns = clock_unix_ns();
	registry->pid_namespace = process_namespace();
	state_init(&registry->state);
	registry->state.observe = registry_observe;
	registry->state.context = registry;
	registry->audit = (struct audit){.users = &registry->state.users,
					 .store = &registry->state.store,
					 .wake = &registry->wake};
	changes_init(&registry->changes);
	indexer_init(&registry->index);
	registry->events.registry = registry->started_unix_ns;
	registry->state.generation = (uint64_t)clock_read_ns(CLOCK_BOOTTIME) / 1000;
	registry->state.since = registry->state.generation;
	set_time(registry);
	return registry;
}

/* Most requests hold the lock for a few microseconds, so try for a while before sleeping. */
static void lock_soon(pthread_mutex_t *mutex)
{
	int64_t until_ns;

	if (!pthread_mutex_trylock(mutex))
		return;
	until_ns = clock_ns() + SPIN_NS;
	while (clock_ns() < until_ns) {
		if (!pthread_mutex_trylock(mutex))
			return;
	}
	pthread_mutex_lock(mutex);
}

/* A thread that unlocks a mutex and locks it again usually gets it before the thread that it woke.
 * `queue` prevents that: the thread that holds `queue` gets `lock` next. */
void registry_lock(struct registry *registry)
{
	lock_soon(&registry->queue);
	lock_soon(&registry->lock);
	pthread_mutex_unlock(&registry->queue);
	set_time(registry);
	if (registry->rests)
		eventfd_write(registry->wake, 1);
	registry->rests = false;
}

void registry_unlock(struct registry *registry)
{
	int64_t held_ns = clock_ns() - registry->locked_ns;

	if (held_ns > registry->held_most_ns)
		registry->held_most_ns = held_ns;
	pthread_mutex_unlock(&registry->lock);
}

void registry_release(struct registry *registry, struct fdref *fdref)
{
	if (registry->fdstore)
		fdstore_release(registry->fdstore, fdref);
	else
		fdref_release(&registry->state.users, fdref);
}

struct session *registry_connect(struct registry *registry, uint32_t id, const struct process *peer)
{
	struct user *user = user_of(&registry->state.users, peer->uid);
	struct session *session =
	    user ? session_new(&registry->state.sessions, id, peer, user) : NULL;

	if (session && getrandom(session->key, sizeof(session->key), GRND_NONBLOCK) !=
			   (ssize_t)sizeof(session->key))
		memset(session->key, 0, sizeof(session->key)); /* it can't be resumed */
	return session;
}

void registry_end(struct registry *registry, int64_t until_ns)
{
	struct piece piece = {.until_ns = until_ns};
	struct session *session;

	while ((session = registry->state.ending) && !piece_is_over(&piece)) {
		if (state_end_one(&registry->state, session))
			continue;
		log_line("end: uid %u pid %d (%s), %u names withdrawn, %u kept, %u attachments "
			 "released",
			 session->peer.uid, session->peer.pid, session->peer.command,
			 session->ended.names, session->ended.kept, session->ended.attachments);
		DL_DELETE(registry->state.ending, session);
		session_free(&registry->state.sessions, session);
	}
	state_end_others(&registry->state);
	save_flush(registry);
}

int64_t registry_expire(struct registry *registry, int64_t now_ns)
{
	struct piece piece = piece_begin();
	struct entry *entry;
	int64_t next;

	while ((entry = buffer_next_kept(&registry->state, NULL)) && entry->deadline_ns <= now_ns &&
	       !piece_is_over(&piece))
		buffer_remove(&registry->state, entry, DEPARTURE_EXPIRED);
	save_flush(registry);
	next = entry ? entry->deadline_ns : INT64_MAX;
	return next <= now_ns ? clock_ns() + PIECE_NS : next;
}

void registry_describe(const struct registry *registry, const struct session *session,
		       const struct entry *entry, record *out_info)
{
	entry_describe(entry, out_info);
	order_describe(registry, entry, out_info);
	/* An address is no secret, but one of cudaMalloc means nothing in other processes. */
	if (!backing_is_fd(entry->info.backing) &&
	    !(session && process_is_same(&session->peer, entry_owner(entry))))
		out_info->address = 0;
	if (entry->deadline_ns != INT64_MAX) {
		int64_t left_ns = entry->deadline_ns - clock_ns();

		out_info->ttl_left_s =
		    left_ns > 0 ? (uint32_t)((left_ns + NS_PER_S - 1) / NS_PER_S) : 0;
	}
}
