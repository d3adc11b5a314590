/* SPDX-License-Identifier: MIT */
#include "note.h"

#include <stdio.h>
#include <string.h>

#include "os/clock.h"
#include "persist/fdstore.h"
#include "order_page.h"

static bool is_off(const struct registry *registry)
{
	return registry->journal.directory < 0;
}

/* Put it down; `noted` is what it took the last time, which means nothing any more. */
static void put(struct journal *journal, const gpushare_State *what, unsigned int *noted)
{
	unsigned int size = journal_put(journal, what);

	journal->live += size;
	journal->live -= *noted;
	*noted = size;
}

/* What ends something. */
static void put_end(struct journal *journal, const gpushare_State *what, unsigned int *noted)
{
	journal_put(journal, what);
	journal->live -= *noted;
	*noted = 0;
}

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

static void note_lease(struct registry *registry, struct lease *lease)
{
	gpushare_State what = {.which_change = gpushare_State_peer_tag};
	gpushare_Peer *peer = &what.change.peer;

	if (lease->noted)
		return;
	memcpy(peer->key, lease->key, sizeof(peer->key));
	describe(&lease->peer, peer);
	peer->number = lease->number;
	put(&registry->journal, &what, &lease->noted);
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
	if (is_off(registry))
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
	put(&registry->journal, &what, &entry->noted);
}

void note_gone(struct registry *registry, struct entry *entry)
{
	gpushare_State what = {.which_change = gpushare_State_go_tag};

	if (is_off(registry) || !entry->noted)
		return;
	strcpy(what.change.go.name, entry->info.name);
	what.change.go.generation = entry->info.generation;
	put_end(&registry->journal, &what, &entry->noted);
}

void note_attachment(struct registry *registry, struct lease *lease, struct attachment *attachment,
		     unsigned int count)
{
	gpushare_State what = {.which_change = gpushare_State_use_tag};
	gpushare_Use *use = &what.change.use;

	if (is_off(registry))
		return;
	note_lease(registry, lease);
	memcpy(use->key, lease->key, sizeof(use->key));
	strcpy(use->name, attachment->name);
	use->generation = attachment->generation;
	use->count = count;
	if (count)
		put(&registry->journal, &what, &attachment->noted);
	else
		put_end(&registry->journal, &what, &attachment->noted);
}

void note_player(struct registry *registry, struct player *player)
{
	gpushare_State what = {.which_change = gpushare_State_play_tag};
	gpushare_Play *play = &what.change.play;

	if (is_off(registry))
		return;
	note_lease(registry, player->lease);
	memcpy(play->key, player->lease->key, sizeof(play->key));
	play->generation = player->order->generation;
	play->roles = player->roles;
	play->slot = player->slot;
	if (player->roles)
		put(&registry->journal, &what, &player->noted);
	else
		put_end(&registry->journal, &what, &player->noted);
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
	put(&registry->journal, &what, &burn->noted);
}

void note_end(struct registry *registry, struct lease *lease)
{
	gpushare_State what = {.which_change = gpushare_State_end_tag};

	if (is_off(registry) || !lease->noted)
		return;
	memcpy(what.change.end.key, lease->key, sizeof(what.change.end.key));
	put_end(&registry->journal, &what, &lease->noted);
}

void note_forget(struct registry *registry, struct attachment *attachment)
{
	registry->journal.live -= attachment->noted;
	attachment->noted = 0;
}

static void put_entry(struct registry *registry, struct entry *entry)
{
	entry->noted = 0;
	note_entry(registry, entry);
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

static void put_all(struct registry *registry)
{
	gpushare_State begin = {.which_change = gpushare_State_begin_tag};
	struct lease *lease;
	struct entry *entry;

	begin.change.begin.version = JOURNAL_VERSION;
	begin.change.begin.since = registry->since;
	begin.change.begin.away = registry->away;
	begin.change.begin.pid_namespace = registry->pid_namespace;
	if (registry->config)
		snprintf(begin.change.begin.config, sizeof(begin.change.begin.config), "%s",
			 registry->config);
	journal_boot(begin.change.begin.boot);
	journal_put(&registry->journal, &begin);
	for (lease = registry->leases.by_id; lease; lease = lease->hh.next)
		lease->noted = 0;
	for (size_t at = 0; (entry = store_at(&registry->store, at)); at++)
		put_entry(registry, entry);
	for (size_t at = 0; (entry = limbo_after(registry, &at));)
		put_entry(registry, entry);
	for (lease = registry->leases.by_id; lease; lease = lease->hh.next) {
		for (struct attachment *each = lease->attachments; each; each = each->hh.next) {
			each->noted = 0;
			note_attachment(registry, lease, each, each->count);
		}
	}
	for (struct order *order = registry->orders; order; order = order->hh.next)
		put_order(registry, order);
	DL_FOREACH(registry->ending, lease)
	{
		note_end(registry, lease);
	}
}

static void rewrite(struct registry *registry, bool compacts)
{
	struct journal *journal = &registry->journal;

	if (is_off(registry) || !journal_begin(journal, compacts))
		return;
	put_all(registry);
	journal_commit(journal);
}

void note_all(struct registry *registry)
{
	rewrite(registry, false);
}

void note_shorten(struct registry *registry)
{
	/* what is ending makes it short */
	if (!registry->ending && journal_is_long(&registry->journal))
		rewrite(registry, true);
}

void note_flush(struct registry *registry)
{
	struct journal *journal = &registry->journal;

	if (journal->dirty) {
		journal->dirty = false;
		if (journal_write(journal)) {
			if (journal_is_deleted(journal))
				note_all(registry);
			else
				note_shorten(registry);
		} else if (clock_ns() >= journal->retry_ns) {
			note_all(registry);
		}
	}
	if (registry->fdstore) /* what it has no more is not needed any more */
		fdstore_flush(registry->fdstore);
}
