/* SPDX-License-Identifier: MIT */
#include "persist/restore.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "order/order.h"
#include "os/clock.h"
#include "os/log.h"
#include "fdstore/fdstore.h"
#include "persist/records.h"
#include "persist/save.h"

/* The registry can't see a process of another pid namespace. If Hello.self can identify it later,
 * its session has until unseen_until_ns to reconnect. */
static bool lives(const struct registry *registry, const struct session *session)
{
	if (session->peer.pid <= 0 && session->peer.own_namespace)
		return clock_ns() < registry->unseen_until_ns;
	return process_lives(&session->peer);
}

/* Watch the sessions' processes, and end the sessions whose process is dead. A process may have
 * ended before watch_add(), and another one may have its pid. */
static void end_dead(struct registry *registry)
{
	struct session *session, *after;

	HASH_ITER (hh, registry->state.sessions.by_id, session, after) {
		session->watch = watch_add(session->peer.pid, session->id);
		if (!session_has_nothing(session) && lives(registry, session))
			continue;
		watch_remove(session->watch);
		registry_disconnect(registry, session);
	}
}

/* Remove missing buffers that nobody is left to bring back. Returns how many are still missing. */
static unsigned int end_lost(struct registry *registry)
{
	unsigned int missing = 0;
	struct entry *entry = store_next(&registry->state.store, 0), *after;

	for (; entry; entry = after) {
		after = store_next(&registry->state.store, entry->info.generation);
		if (entry->info.missing && !buffer_lose(&registry->state, entry))
			missing++;
	}
	return missing;
}

bool restore_open(struct registry *registry, const char *directory)
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct entry *entry;
	unsigned int missing;
	bool goes_on;

	if (fd >= 0)
		registry->fdstore = fdstore_open(directory, &registry->state.users);
	if (registry->fdstore)
		registry->records = records_open(fd);
	if (!registry->records) {
		log_error("can't open %s: %s", directory, strerror(errno));
		if (fd >= 0)
			close(fd);
		return false;
	}
	registry->unseen_until_ns = clock_ns() + LIMIT_UNSEEN_S * NS_PER_S;
	registry_lock(registry);
	goes_on = load_records(registry);
	order_restore(registry);
	end_dead(registry);
	missing = end_lost(registry);
	fdstore_settle(registry->fdstore);
	if (goes_on)
		save_header(registry);
	else
		save_all(registry);
	for (entry = store_next(&registry->state.store, 0); entry;
	     entry = store_next(&registry->state.store, entry->info.generation)) {
		if (!entry->info.nameless)
			registry_show(registry, entry);
	}
	if (registry->state.store.names.root)
		log_line("restored: %" PRIu64 " names, %u of them without their memory, %u "
			 "sessions",
			 registry->state.users.total.held[LIMIT_names], missing,
			 (unsigned int)registry->state.sessions.disconnected);
	registry_unlock(registry);
	registry->held_most_ns = 0; /* no client waits for the lock at the start */
	return true;
}

/* Whether no watch reports when this disconnected session must end, so that the registry must
 * check. */
static bool is_looked_at(const struct session *session)
{
	return session->disconnected && !session->ending &&
	       (session->watch < 0 || session_has_nothing(session));
}

bool restore_looks(const struct registry *registry)
{
	const struct session *session =
	    registry->state.sessions.disconnected ? registry->state.sessions.by_id : NULL;

	while (session && !is_looked_at(session))
		session = session->hh.next;
	return session;
}

uint32_t restore_next_dead(const struct registry *registry)
{
	if (!registry->state.sessions.disconnected)
		return 0;
	for (struct session *session = registry->state.sessions.by_id; session;
	     session = session->hh.next) {
		if (is_looked_at(session) &&
		    (session_has_nothing(session) || !lives(registry, session)))
			return session->id;
	}
	return 0;
}

void restore_leave(struct registry *registry)
{
	bool keep;

	registry_lock(registry);
	registry->leaving = true;
	registry_end(registry, INT64_MAX);
	indexer_close(&registry->index);
	keep = registry->state.store.generations.root;
	if (keep && !records_stand(registry->records))
		save_all(registry);
	order_unmap_all(registry);
	registry->records = records_close(registry->records, keep);
	fdstore_close(registry->fdstore, keep);
	registry->fdstore = NULL; /* connections that end later must not use it */
	registry_unlock(registry);
}
