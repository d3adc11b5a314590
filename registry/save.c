/* SPDX-License-Identifier: MIT */
#include "save.h"

#include <stdio.h>
#include <string.h>

#include "os/clock.h"
#include "persist/fdstore.h"
#include "order/order.h"

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

static void put_session(struct registry *registry, struct session *session)
{
	gpushare_State what = {.which_change = gpushare_State_peer_tag};
	gpushare_Peer *peer = &what.change.peer;

	memcpy(peer->key, session->key, sizeof(peer->key));
	describe(&session->peer, peer);
	records_put(&registry->records, &what, &session->record_slot);
}

static void save_session(struct registry *registry, struct session *session)
{
	if (!session->record_slot && !session->ending)
		put_session(registry, session);
}

void save_entry(struct registry *registry, struct entry *entry)
{
	gpushare_State what = {.which_change = gpushare_State_stand_tag};
	gpushare_Stand *stand = &what.change.stand;
	int64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_ns();

	/* What travels as a descriptor is written down when that is in the store: a successor finds both. */
	if (is_off(registry) || (backing_is_fd(entry->info.backing) && !entry->nameless &&
				 !entry->held && !entry->info.missing))
		return;
	if (entry->session) {
		save_session(registry, entry->session);
		memcpy(stand->key, entry->session->key, sizeof(stand->key));
	}
	stand->has_buffer = true;
	entry_tell(entry, &stand->buffer);
	memcpy(stand->handle, entry->handle, sizeof(stand->handle));
	stand->created_boot_ns = entry->created_ns + boot_ns;
	if (entry->deadline_ns != INT64_MAX)
		stand->deadline_boot_ns = entry->deadline_ns + boot_ns;
	stand->nameless = entry->nameless;
	stand->unsynced = entry->unsynced;
	records_put(&registry->records, &what, &entry->record_slot);
}

void save_gone(struct registry *registry, struct entry *entry)
{
	records_drop(&registry->records, &entry->record_slot);
}

void save_forget(struct registry *registry, unsigned int record_slot)
{
	records_drop(&registry->records, &record_slot);
}

void save_attachment(struct registry *registry, struct session *session,
		     struct attachment *attachment, unsigned int count)
{
	gpushare_State what = {.which_change = gpushare_State_use_tag};
	gpushare_Use *use = &what.change.use;

	if (!count)
		records_drop(&registry->records, &attachment->record_slot);
	if (!count || is_off(registry))
		return;
	save_session(registry, session);
	memcpy(use->key, session->key, sizeof(use->key));
	strcpy(use->name, attachment->name);
	use->generation = attachment->generation;
	use->count = count;
	records_put(&registry->records, &what, &attachment->record_slot);
}

void save_participant(struct registry *registry, struct participant *participant)
{
	gpushare_State what = {.which_change = gpushare_State_play_tag};
	gpushare_Play *play = &what.change.play;

	if (!participant->roles)
		records_drop(&registry->records, &participant->record_slot);
	if (!participant->roles || is_off(registry))
		return;
	save_session(registry, participant->session);
	memcpy(play->key, participant->session->key, sizeof(play->key));
	play->generation = participant->order->generation;
	play->roles = participant->roles;
	play->slot = participant->slot;
	records_put(&registry->records, &what, &participant->record_slot);
}

void save_end(struct registry *registry, struct session *session)
{
	records_drop(&registry->records, &session->record_slot);
}

void save_seen(struct registry *registry, struct session *session)
{
	if (!is_off(registry))
		put_session(registry, session);
}

void save_begin(struct registry *registry)
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
	records_put(&registry->records, &what, &registry->record_slot);
}

static void put_entry(struct registry *registry, struct entry *entry)
{
	entry->record_slot = 0;
	save_entry(registry, entry);
}

static void put_attachments(struct registry *registry, struct session *session)
{
	struct attachment *each;

	DL_FOREACH(session->attachments, each)
	{
		each->record_slot = 0;
		save_attachment(registry, session, each, each->count);
	}
}

static void put_order(struct registry *registry, struct order *order)
{
	struct participant *participant;

	DL_FOREACH(order->participants, participant)
	{
		participant->record_slot = 0;
		save_participant(registry, participant);
	}
}

void save_all(struct registry *registry)
{
	struct session *session;
	struct entry *entry;

	if (!records_begin(&registry->records))
		return;
	registry->record_slot = 0;
	save_begin(registry);
	for (session = registry->sessions.by_id; session; session = session->hh.next)
		session->record_slot = 0;
	for (entry = store_after(&registry->store, ""); entry;
	     entry = store_after(&registry->store, entry->info.name))
		put_entry(registry, entry);
	for (entry = store_deferred_after(&registry->store, 0); entry;
	     entry = store_deferred_after(&registry->store, entry->info.generation))
		put_entry(registry, entry);
	for (session = registry->sessions.by_id; session; session = session->hh.next)
		put_attachments(registry, session);
	for (struct order *order = registry->orders; order; order = order->hh.next)
		put_order(registry, order);
	records_commit(&registry->records);
}

void save_tend(struct registry *registry)
{
	if (records_wants_new(&registry->records))
		save_all(registry);
}

void save_flush(struct registry *registry)
{
	if (records_wants_all(&registry->records))
		save_all(registry);
	if (registry->fdstore)
		fdstore_flush(registry->fdstore);
}
