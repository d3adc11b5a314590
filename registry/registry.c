/* SPDX-License-Identifier: MIT */
#include "registry.h"

#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "log.h"

struct registry *registry_new(const char *directory)
{
	struct registry *registry = calloc(1, sizeof(*registry));

	if (!registry)
		return NULL;
	pthread_mutex_init(&registry->lock, NULL);
	registry->limits = LIMITS_DEFAULT;
	registry->started_unix_ns = clock_unix_ns();
	store_init(&registry->store);
	vault_init(&registry->vault);
	generation_init(&registry->generation, directory);
	return registry;
}

struct registry *registry_free(struct registry *registry)
{
	if (!registry)
		return NULL;
	while (registry->leases.by_id)
		registry_disconnect(registry, registry->leases.by_id);
	store_finish(&registry->store);
	vault_finish(&registry->vault);
	generation_finish(&registry->generation);
	pthread_mutex_destroy(&registry->lock);
	free(registry);
	return NULL;
}

struct lease *registry_connect(struct registry *registry, uint32_t id, const struct process *peer)
{
	return lease_new(&registry->leases, id, peer);
}

static struct waiter *take_waiters(struct registry *registry, const struct lease *lease)
{
	struct waiter *taken = NULL, *waiter, *after;

	DL_FOREACH_SAFE(registry->waiters, waiter, after) {
		if (waiter->lease != lease)
			continue;
		registry_unpark(registry, waiter);
		DL_APPEND(taken, waiter);
	}
	return taken;
}

struct waiter *registry_disconnect(struct registry *registry, struct lease *lease)
{
	struct waiter *waiters = take_waiters(registry, lease);
	struct attachment *attachment, *after;
	struct entry *entry;
	unsigned int names = 0, attachments = 0;

	while (lease->entries) {
		registry_remove(registry, lease->entries, DEPARTURE_LEASE);
		names++;
	}
	HASH_ITER(hh, lease->attachments, attachment, after) {
		entry = store_find(&registry->store, attachment->name);
		if (entry && entry->info.generation == attachment->generation && !attachment->own)
			entry->info.attachers -= attachment->count;
		attachments += attachment->count;
		lease_detach(&registry->leases, lease, attachment, attachment->count);
	}
	log_line("end: uid %u pid %d (%s), %u names withdrawn, %u attachments released",
		 lease->peer.uid, lease->peer.pid, lease->peer.command, names, attachments);
	vault_end_lease(&registry->vault, lease->id);
	lease_free(&registry->leases, lease);
	return waiters;
}

struct entry *registry_add(struct registry *registry, struct lease *lease, const record *info,
			   const uint8_t *handle)
{
	struct entry *entry = store_add(&registry->store, info, handle);

	if (!entry)
		return NULL;
	entry->lease = lease;
	entry->owner = lease->peer;
	entry->info.generation = generation_take(&registry->generation);
	entry->info.mode = 0600;
	entry->info.owner_uid = lease->peer.uid;
	entry->info.owner_pid = lease->peer.pid;
	entry->info.owner_started = lease->peer.started;
	strcpy(entry->info.owner_command, lease->peer.command);
	entry->info.attachers = 0;
	entry->info.created_unix_ns = clock_unix_ns();
	DL_APPEND(lease->entries, entry);
	return entry;
}

void registry_remove(struct registry *registry, struct entry *entry, enum departure how)
{
	tombstone_add(&registry->tombstones, entry->info.name, &entry->owner, how, clock_ns());
	DL_DELETE(entry->lease->entries, entry);
	if (entry->held)
		vault_release(&registry->vault, entry->held);
	store_remove(&registry->store, entry);
}

void registry_park(struct registry *registry, struct waiter *waiter)
{
	DL_APPEND(registry->waiters, waiter);
	registry->waiter_count++;
}

void registry_unpark(struct registry *registry, struct waiter *waiter)
{
	DL_DELETE(registry->waiters, waiter);
	registry->waiter_count--;
}

int64_t registry_next_deadline_ns(const struct registry *registry)
{
	int64_t next = INT64_MAX;
	const struct waiter *waiter;

	DL_FOREACH(registry->waiters, waiter) {
		if (waiter->deadline_ns < next)
			next = waiter->deadline_ns;
	}
	return next;
}

void registry_tell(const struct lease *lease, const struct entry *entry, record *out_info)
{
	*out_info = entry->info;
	if (!process_is_same(&lease->peer, &entry->owner))
		out_info->address = 0;
}
