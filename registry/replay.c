/* SPDX-License-Identifier: MIT */
#include "replay.h"

#include <string.h>

#include "clock.h"
#include "log.h"

#define GHOST_FIRST 0x80000000u /* nng numbers its pipes below that */

static bool replay_begin(struct registry *registry, const gpushare_Begin *begin)
{
	char boot[sizeof(begin->boot)];

	journal_boot(boot);
	if (begin->version != JOURNAL_VERSION || !*boot || strcmp(begin->boot, boot) != 0) {
		log_line("%s is of another boot or version, and not heeded", JOURNAL_FILE);
		return false;
	}
	if (begin->since < registry->since)
		registry->since = begin->since;
	return true;
}

static void replay_peer(struct registry *registry, const gpushare_Peer *told)
{
	struct process peer = {.pid = told->pid, .uid = told->uid, .started = told->started};
	struct lease *lease = lease_find_key(&registry->leases, told->key);

	if (lease)
		return;
	strcpy(peer.command, told->command);
	lease = registry_connect(registry, GHOST_FIRST + registry->leases.ghosts_ever++, &peer);
	if (!lease)
		return;
	memcpy(lease->key, told->key, sizeof(lease->key));
	lease->ghost = true;
	registry->leases.ghosts++;
}

static struct entry *find(const struct registry *registry, const char *name, uint64_t generation)
{
	struct entry *entry = store_find(&registry->store, name);

	return entry && entry->info.generation == generation ? entry : NULL;
}

static void replay_stand(struct registry *registry, const gpushare_Stand *stand)
{
	static const uint8_t none[GPUSHARE_LEASE_SIZE];
	const record *info = &stand->buffer;
	int64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_ns();
	bool orphan = !memcmp(stand->key, none, sizeof(none));
	struct lease *lease = orphan ? NULL : lease_find_key(&registry->leases, stand->key);
	struct entry *entry = store_find(&registry->store, info->name);

	if (!name_is_valid(info->name) || !info->generation || (!orphan && !lease) ||
	    (orphan && !keep_is_asked(info)))
		return;
	if (entry)
		registry_drop(registry, entry);
	entry = store_add(&registry->store, info, stand->handle);
	if (!entry)
		return;
	store_number(&registry->store, entry, info->generation);
	entry->info.attachers = 0;
	entry->info.missing = false;
	entry->created_ns = stand->created_boot_ns - boot_ns;
	if (stand->deadline_boot_ns)
		entry->deadline_ns = stand->deadline_boot_ns - boot_ns;
	entry->owner = (struct process){
	    .pid = info->owner_pid, .uid = info->owner_uid, .started = info->owner_started};
	strcpy(entry->owner.command, info->owner_command);
	entry->lease = lease;
	if (lease)
		DL_APPEND(lease->entries, entry);
	else
		DL_APPEND(registry->kept, entry);
	if (keep_is_asked(info))
		registry->kept_bytes += info->base_size;
}

static void replay_use(struct registry *registry, const gpushare_Use *use)
{
	struct lease *lease = lease_find_key(&registry->leases, use->key);

	struct attachment *attachment;

	if (!lease || !name_is_valid(use->name))
		return;
	if (use->count) {
		lease_set(&registry->leases, lease, use->name, use->generation, use->count);
		return;
	}
	attachment = lease_find_attachment(lease, use->name, use->generation);
	if (attachment)
		lease_detach(&registry->leases, lease, attachment, attachment->count);
}

static void replay_end(struct registry *registry, const gpushare_End *end)
{
	struct lease *lease = lease_find_key(&registry->leases, end->key);
	struct attachment *attachment, *after;

	if (!lease)
		return;
	while (lease->entries)
		registry_drop(registry, lease->entries);
	HASH_ITER (hh, lease->attachments, attachment, after) {
		lease_detach(&registry->leases, lease, attachment, attachment->count);
	}
	lease_free(&registry->leases, lease);
}

static bool replay_one(void *context, const gpushare_State *what)
{
	struct registry *registry = context;
	struct entry *entry;

	switch (what->which_change) {
	case gpushare_State_peer_tag:
		replay_peer(registry, &what->change.peer);
		break;
	case gpushare_State_stand_tag:
		replay_stand(registry, &what->change.stand);
		break;
	case gpushare_State_go_tag:
		entry = find(registry, what->change.go.name, what->change.go.generation);
		if (entry)
			registry_drop(registry, entry);
		break;
	case gpushare_State_use_tag:
		replay_use(registry, &what->change.use);
		break;
	case gpushare_State_end_tag:
		replay_end(registry, &what->change.end);
		break;
	}
	return true; /* what is of no kind that we know is a later version's */
}

struct reader {
	struct registry *registry;
	bool begun;
};

static bool read_state(void *context, const gpushare_State *what)
{
	struct reader *reader = context;

	if (reader->begun)
		return replay_one(reader->registry, what);
	reader->begun = what->which_change == gpushare_State_begin_tag &&
			replay_begin(reader->registry, &what->change.begin);
	return reader->begun;
}

void replay(struct registry *registry, int directory)
{
	struct reader reader = {.registry = registry};
	struct entry *entry;

	journal_read(directory, read_state, &reader);
	for (size_t at = 0; (entry = store_at(&registry->store, at)); at++) {
		registry_count(registry, entry);
		generation_pass(&registry->generation, entry->info.generation);
	}
}
