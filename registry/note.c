/* SPDX-License-Identifier: MIT */
#include "note.h"

#include <stdio.h>
#include <string.h>

#include "os/clock.h"
#include "persist/fdstore.h"
#include "order_page.h"

static void describe(const struct process *process, gpushare_Peer *out_peer)
{
	out_peer->pid = process->pid;
	out_peer->uid = process->uid;
	out_peer->started = process->started;
	strcpy(out_peer->command, process->command);
	out_peer->stack = process->stack;
	out_peer->own_namespace = process->own_namespace;
	out_peer->own_pid = process->own_pid;
	out_peer->own_started = process->own_started;
}

static bool is_off(const struct registry *registry)
{
	return registry->records.file < 0;
}

static void put_lease(struct registry *registry, struct lease *lease)
{
	gpushare_State what = {.which_change = gpushare_State_peer_tag};
	gpushare_Peer *peer = &what.change.peer;

	memcpy(peer->key, lease->key, sizeof(peer->key));
	describe(&lease->peer, peer);
	peer->number = lease->number;
	records_put(&registry->records, &what, &lease->noted);
}

static void note_lease(struct registry *registry, struct lease *lease)
{
	if (!lease->noted && !lease->ending)
		put_lease(registry, lease);
}

void note_entry(struct registry *registry, struct entry *entry)
{
	gpushare_State what = {.which_change = gpushare_State_stand_tag};
	gpushare_Stand *stand = &what.change.stand;
	int64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_ns();

	bool nameless = limbo_find(registry, entry->info.generation) == entry;

	tally_put(&registry->tallies, entry, nameless);
	if (!nameless)
		registry_show(registry, entry);
	/* What travels as a descriptor is written down when that is in the store: a successor finds both. */
	if (is_off(registry) || (backing_is_fd(entry->info.backing) && !nameless && !entry->held &&
				 !entry->info.missing))
		return;
	if (entry->lease) {
		note_lease(registry, entry->lease);
		memcpy(stand->key, entry->lease->key, sizeof(stand->key));
	}
	stand->has_buffer = true;
	entry_tell(entry, &stand->buffer);
	memcpy(stand->handle, entry->handle, sizeof(stand->handle));
	stand->created_boot_ns = entry->created_ns + boot_ns;
	if (entry->deadline_ns != INT64_MAX)
		stand->deadline_boot_ns = entry->deadline_ns + boot_ns;
	stand->nameless = nameless;
	stand->untold = entry->untold;
	records_put(&registry->records, &what, &entry->noted);
}

void note_gone(struct registry *registry, struct entry *entry)
{
	records_drop(&registry->records, &entry->noted);
}

void note_forget(struct registry *registry, unsigned int noted)
{
	records_drop(&registry->records, &noted);
}

void note_attachment(struct registry *registry, struct lease *lease, struct attachment *attachment,
		     unsigned int count)
{
	gpushare_State what = {.which_change = gpushare_State_use_tag};
	gpushare_Use *use = &what.change.use;

	if (!count)
		records_drop(&registry->records, &attachment->noted);
	if (!count || is_off(registry))
		return;
	note_lease(registry, lease);
	memcpy(use->key, lease->key, sizeof(use->key));
	strcpy(use->name, attachment->name);
	use->generation = attachment->generation;
	use->count = count;
	records_put(&registry->records, &what, &attachment->noted);
}

void note_player(struct registry *registry, struct player *player)
{
	gpushare_State what = {.which_change = gpushare_State_play_tag};
	gpushare_Play *play = &what.change.play;

	if (!player->roles)
		records_drop(&registry->records, &player->noted);
	if (!player->roles || is_off(registry))
		return;
	note_lease(registry, player->lease);
	memcpy(play->key, player->lease->key, sizeof(play->key));
	play->generation = player->order->generation;
	play->roles = player->roles;
	play->slot = player->slot;
	records_put(&registry->records, &what, &player->noted);
}

void note_burn(struct registry *registry, const struct order *order, uint32_t slot)
{
	gpushare_State what = {.which_change = gpushare_State_burn_tag};
	struct burn *burn = order->place[slot - 1].burn;

	if (is_off(registry))
		return;
	what.change.burn.generation = order->generation;
	what.change.burn.slot = slot;
	what.change.burn.has_process = true;
	describe(&burn->process, &what.change.burn.process);
	what.change.burn.settles = burn->settles;
	records_put(&registry->records, &what, &burn->noted);
}

void note_burn_end(struct registry *registry, struct burn *burn)
{
	records_drop(&registry->records, &burn->noted);
}

void note_end(struct registry *registry, struct lease *lease)
{
	records_drop(&registry->records, &lease->noted);
}

void note_seen(struct registry *registry, struct lease *lease)
{
	struct entry *entry;

	if (is_off(registry))
		return;
	put_lease(registry, lease);
	DL_FOREACH(lease->entries, entry)
	{
		note_entry(registry, entry);
	}
	DL_FOREACH(lease->limbo, entry)
	{
		note_entry(registry, entry);
	}
}

void note_begin(struct registry *registry)
{
	gpushare_State what = {.which_change = gpushare_State_begin_tag};
	gpushare_Begin *begin = &what.change.begin;

	if (is_off(registry))
		return;
	begin->version = RECORDS_VERSION;
	begin->since = registry->since;
	begin->away = registry->away;
	begin->pid_namespace = registry->pid_namespace;
	if (registry->config)
		snprintf(begin->config, sizeof(begin->config), "%s", registry->config);
	records_boot(begin->boot);
	records_put(&registry->records, &what, &registry->noted);
}

static void put_entry(struct registry *registry, struct entry *entry)
{
	entry->noted = 0;
	note_entry(registry, entry);
}

static void put_attachments(struct registry *registry, struct lease *lease)
{
	struct attachment *each;

	DL_FOREACH(lease->attachments, each)
	{
		each->noted = 0;
		note_attachment(registry, lease, each, each->count);
	}
}

static void put_order(struct registry *registry, struct order *order)
{
	struct player *player;

	DL_FOREACH(order->players, player)
	{
		player->noted = 0;
		note_player(registry, player);
	}
	for (uint32_t at = 0; at < ORDER_SLOTS; at++) {
		struct burn *burn = order->place[at].burn;

		if (!burn)
			continue;
		burn->noted = 0;
		note_burn(registry, order, at + 1);
	}
}

void note_all(struct registry *registry)
{
	struct lease *lease;
	struct entry *entry;

	if (!records_begin(&registry->records))
		return;
	registry->noted = 0;
	note_begin(registry);
	for (lease = registry->leases.by_id; lease; lease = lease->hh.next)
		lease->noted = 0;
	for (size_t at = 0; (entry = store_at(&registry->store, at)); at++)
		put_entry(registry, entry);
	for (size_t at = 0; (entry = limbo_after(registry, &at));)
		put_entry(registry, entry);
	for (lease = registry->leases.by_id; lease; lease = lease->hh.next)
		put_attachments(registry, lease);
	for (struct order *order = registry->orders; order; order = order->hh.next)
		put_order(registry, order);
	records_commit(&registry->records);
}

void note_flush(struct registry *registry)
{
	if (records_wants_all(&registry->records))
		note_all(registry);
	if (registry->fdstore)
		fdstore_flush(registry->fdstore);
}
