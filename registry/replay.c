/* SPDX-License-Identifier: MIT */
#include "replay.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/log.h"
#include "order_page.h"

#define GHOST_FIRST 0x80000000u /* nng numbers its pipes below that */

static bool is_of_now(const gpushare_Begin *begin)
{
	char boot[sizeof(begin->boot)];

	journal_boot(boot);
	return begin->version == JOURNAL_VERSION && *boot && !strcmp(begin->boot, boot);
}

static bool replay_begin(struct registry *registry, const gpushare_Begin *begin)
{
	if (!is_of_now(begin)) {
		log_line("%s is of another boot or version, and not heeded", JOURNAL_FILE);
		return false;
	}
	if (begin->since < registry->since)
		registry->since = begin->since;
	registry->away = begin->away;
	if (begin->pid_namespace != registry->pid_namespace && begin->pid_namespace &&
	    registry->pid_namespace)
		registry->replayed_namespace = begin->pid_namespace;
	return true;
}

static struct process process_told(const gpushare_Peer *told)
{
	struct process process = {
	    .pid = told->pid,
	    .uid = told->uid,
	    .started = told->started,
	    .stack = told->stack,
	    .own_namespace = told->own_namespace,
	    .own_pid = told->own_pid,
	    .own_started = told->own_started,
	};

	strcpy(process.command, told->command);
	return process;
}

/* Who has said nothing of itself may be further below than where it was seen from. */
static struct process process_of(const struct registry *registry, const gpushare_Peer *told)
{
	struct process process = process_told(told);

	if (registry->replayed_namespace)
		process_forget_pid(&process, registry->replayed_namespace);
	return process;
}

static void replay_peer(struct registry *registry, const gpushare_Peer *told)
{
	const struct process was = process_told(told), peer = process_of(registry, told);
	struct lease *lease = lease_find_key(&registry->leases, told->key);

	if (lease)
		return;
	lease = registry_connect(registry, GHOST_FIRST + registry->leases.ghosts_ever++, &peer);
	if (!lease)
		return;
	memcpy(lease->key, told->key, sizeof(lease->key));
	lease->number = told->number;
	if (registry->replayed_namespace && !told->number)
		lease->number = player_number(&was);
	lease_haunt(&registry->leases, lease);
}

/* As it was, on its own; generation apart. NULL: out of memory. */
static struct entry *fill(const struct registry *registry, struct entry *entry,
			  const struct lease *lease, const gpushare_Stand *stand)
{
	int64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_ns();

	if (!entry)
		return NULL;
	entry->info.attachers = 0;
	entry->info.missing = false;
	entry->info.in_limbo = stand->buffer.in_limbo && stand->nameless;
	entry->untold = stand->untold && stand->nameless;
	entry->created_ns = stand->created_boot_ns - boot_ns;
	entry->deadline_ns =
	    stand->deadline_boot_ns ? stand->deadline_boot_ns - boot_ns : INT64_MAX;
	entry->owner = (struct process){.pid = entry->info.owner_pid,
					.uid = entry->info.owner_uid,
					.started = entry->info.owner_started};
	strcpy(entry->owner.command, entry->info.owner_command);
	if (lease)
		entry->owner = lease->peer;
	if (!registry->replayed_namespace)
		return entry;
	if (!lease)
		process_forget_pid(&entry->owner, registry->replayed_namespace);
	entry->info.owner_pid = entry->owner.pid;
	entry->info.owner_started = entry->owner.started;
	return entry;
}

/* Whose it is. false: out of memory. */
static bool own(struct registry *registry, struct entry *entry)
{
	struct user *user = user_of(&registry->users, entry->owner.uid);

	if (user)
		user_enter(user, entry, LIMIT_names);
	return user;
}

static void stand_named(struct registry *registry, struct lease *lease, const gpushare_Stand *stand)
{
	const record *info = &stand->buffer;
	struct entry *entry =
	    fill(registry, store_add(&registry->store, info, stand->handle), lease, stand);

	if (!entry)
		return;
	if (!own(registry, entry)) {
		store_remove(&registry->store, entry);
		return;
	}
	store_number(&registry->store, entry, info->generation);
	entry->lease = lease;
	if (lease)
		DL_APPEND(lease->entries, entry);
	else
		DL_APPEND(registry->kept, entry);
	keep_count(entry);
}

static void stand_nameless(struct registry *registry, struct lease *lease,
			   const gpushare_Stand *stand)
{
	struct entry *entry =
	    fill(registry, entry_new(&stand->buffer, stand->handle), lease, stand);

	if (!entry)
		return;
	if (own(registry, entry) && limbo_insert(registry, lease, entry)) {
		store_number(&registry->store, entry, stand->buffer.generation);
		return;
	}
	entry_free(entry);
}

static void replay_stand(struct registry *registry, const gpushare_Stand *stand)
{
	static const uint8_t none[GPUSHARE_LEASE_SIZE];
	const record *info = &stand->buffer;
	bool orphan = !memcmp(stand->key, none, sizeof(none));
	struct lease *lease = orphan ? NULL : lease_find_key(&registry->leases, stand->key);
	struct entry *named = store_find(&registry->store, info->name);
	struct entry *nameless = limbo_find(registry, info->generation);

	if (!name_is_valid(info->name) || !info->generation || (!orphan && !lease) ||
	    (orphan && (stand->nameless || !keep_stays(info->flags))))
		return;
	if (nameless)
		limbo_leave(registry, nameless);
	if (named && (!stand->nameless || named->info.generation == info->generation))
		registry_drop(registry, named);
	if (stand->nameless)
		stand_nameless(registry, lease, stand);
	else
		stand_named(registry, lease, stand);
}

static void replay_go(struct registry *registry, const gpushare_Go *go)
{
	struct entry *named = store_find(&registry->store, go->name);
	struct entry *nameless = limbo_find(registry, go->generation);

	if (named && named->info.generation == go->generation)
		registry_drop(registry, named);
	else if (nameless)
		limbo_leave(registry, nameless);
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

static void replay_play(struct registry *registry, const gpushare_Play *play)
{
	struct lease *lease = lease_find_key(&registry->leases, play->key);

	if (lease && play->generation)
		player_replay(registry, lease, play->generation, play->roles, play->slot);
}

static void replay_burn(struct registry *registry, const gpushare_Burn *burn)
{
	const struct process process = process_of(registry, &burn->process);

	if (burn->generation)
		burn_replay(registry, burn->generation, burn->slot, &process, burn->settles);
}

static void replay_end(struct registry *registry, const gpushare_End *end)
{
	struct lease *lease = lease_find_key(&registry->leases, end->key);
	struct attachment *attachment, *after;
	struct entry *entry;

	if (!lease)
		return;
	while (lease->players)
		player_replay(registry, lease, lease->players->order->generation, 0, 0);
	while ((entry = lease->entries)) {
		if (keep_stays(entry->info.flags))
			keep_orphan(registry, entry);
		else
			registry_drop(registry, entry);
	}
	while (lease->limbo)
		limbo_leave(registry, lease->limbo->prev);
	HASH_ITER (hh, lease->attachments, attachment, after) {
		lease_detach(&registry->leases, lease, attachment, attachment->count);
	}
	lease_free(&registry->leases, lease);
}

static bool replay_one(void *context, const gpushare_State *what)
{
	struct registry *registry = context;

	switch (what->which_change) {
	case gpushare_State_peer_tag:
		replay_peer(registry, &what->change.peer);
		break;
	case gpushare_State_stand_tag:
		replay_stand(registry, &what->change.stand);
		break;
	case gpushare_State_go_tag:
		replay_go(registry, &what->change.go);
		break;
	case gpushare_State_use_tag:
		replay_use(registry, &what->change.use);
		break;
	case gpushare_State_play_tag:
		replay_play(registry, &what->change.play);
		break;
	case gpushare_State_burn_tag:
		replay_burn(registry, &what->change.burn);
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

	registry->replaying = true;
	journal_read(directory, read_state, &reader);
	registry->replaying = false;
	for (size_t at = 0; (entry = store_at(&registry->store, at)); at++) {
		generation_pass(&registry->generation, entry->info.generation);
		tally_put(&registry->tallies, entry, false);
	}
	for (size_t at = 0; (entry = limbo_after(registry, &at));) {
		generation_pass(&registry->generation, entry->info.generation);
		tally_put(&registry->tallies, entry, true);
	}
	for (struct lease *lease = registry->leases.by_id; lease; lease = lease->hh.next) {
		for (struct attachment *each = lease->attachments; each; each = each->hh.next) {
			generation_pass(&registry->generation, each->generation);
			entry = registry_find(registry, each->name, each->generation);
			if (entry)
				registry_join(lease, each, entry);
		}
	}
}

/* It stands in the first entry. */
static bool read_config(void *context, const gpushare_State *what)
{
	const gpushare_Begin *begin = &what->change.begin;

	if (what->which_change == gpushare_State_begin_tag && is_of_now(begin))
		snprintf(context, OPTIONS_CONFIG_MAX, "%s", begin->config);
	return false;
}

bool replay_config(const char *directory, char out_config[OPTIONS_CONFIG_MAX])
{
	int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	*out_config = '\0';
	if (fd < 0)
		return false;
	journal_read(fd, read_config, out_config);
	close(fd);
	return *out_config;
}
