/* SPDX-License-Identifier: MIT */
#include "load.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/log.h"
#include "save.h"
#include "order/order.h"

#define DISCONNECTED_FIRST 0x80000000u /* nng numbers its pipes below that */

static bool is_of_now(const gpushare_Begin *begin)
{
	char boot[sizeof(begin->boot)];

	records_boot(boot);
	return begin->version == RECORDS_VERSION && *boot && !strcmp(begin->boot, boot);
}

/* A thing's record is there; the one that it had is older. */
static void save_at(struct registry *registry, unsigned int *record_slot, unsigned int slot)
{
	save_forget(registry, *record_slot);
	*record_slot = slot;
}

static bool load_begin(struct registry *registry, const gpushare_Begin *begin, unsigned int slot)
{
	if (!is_of_now(begin)) {
		log_line("%s is of another boot or version, and not heeded", RECORDS_FILE);
		return false;
	}
	save_at(registry, &registry->record_slot, slot);
	if (begin->since < registry->since)
		registry->since = begin->since;
	registry->away = begin->away;
	if (begin->pid_namespace != registry->pid_namespace && begin->pid_namespace &&
	    registry->pid_namespace)
		registry->loaded_namespace = begin->pid_namespace;
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

	if (registry->loaded_namespace)
		process_forget_pid(&process, registry->loaded_namespace);
	return process;
}

/* Below, NULL: what the record is of is not to be had, and nobody needs it. */

/* Two of one key are of one process, before and after it was seen anew: either will do. */
static unsigned int *load_peer(struct registry *registry, const gpushare_Peer *told)
{
	const struct process peer = process_of(registry, told);
	struct session *session;

	if (session_find_key(&registry->sessions, told->key))
		return NULL;
	session = registry_connect(
	    registry, DISCONNECTED_FIRST + registry->sessions.disconnected_ever++, &peer);
	if (!session)
		return NULL;
	memcpy(session->key, told->key, sizeof(session->key));
	session_disconnect(&registry->sessions, session);
	return &session->record_slot;
}

/* As it was, on its own; generation apart. NULL: out of memory. */
static struct entry *fill(const struct registry *registry, struct entry *entry,
			  const struct session *session, const gpushare_Stand *stand)
{
	int64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_ns();

	if (!entry)
		return NULL;
	entry->info.attachers = 0;
	entry->info.missing = false;
	entry->info.in_limbo = stand->buffer.in_limbo && stand->nameless;
	entry->unsynced = stand->unsynced && stand->nameless;
	entry->created_ns = stand->created_boot_ns - boot_ns;
	entry->deadline_ns =
	    stand->deadline_boot_ns ? stand->deadline_boot_ns - boot_ns : INT64_MAX;
	entry->owner = (struct process){.pid = entry->info.owner_pid,
					.uid = entry->info.owner_uid,
					.started = entry->info.owner_started};
	strcpy(entry->owner.command, stand->buffer.owner_command);
	if (session)
		entry->owner = session->peer;
	if (!registry->loaded_namespace)
		return entry;
	if (!session)
		process_forget_pid(&entry->owner, registry->loaded_namespace);
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

static struct entry *stand_named(struct registry *registry, struct session *session,
				 const gpushare_Stand *stand)
{
	const record *info = &stand->buffer;
	struct entry *entry =
	    fill(registry, store_add(&registry->store, info, stand->handle), session, stand);

	if (!entry)
		return NULL;
	if (!own(registry, entry)) {
		store_remove(&registry->store, entry);
		return NULL;
	}
	store_number(&registry->store, entry, info->generation);
	entry->session = session;
	if (session)
		DL_APPEND(session->entries, entry);
	else /* its owner's connection may have ended before it came to that */
		buffer_load_kept(&registry->state, entry);
	entry_count_kept(entry);
	return entry;
}

static struct entry *stand_nameless(struct registry *registry, struct session *session,
				    const gpushare_Stand *stand)
{
	struct entry *entry =
	    fill(registry, entry_new(&stand->buffer, stand->handle), session, stand);

	if (!entry)
		return NULL;
	if (!own(registry, entry))
		return entry_free(entry);
	store_number(&registry->store, entry, stand->buffer.generation);
	buffer_load_deferred(&registry->state, session, entry);
	return entry;
}

/* NULL: it is kept, and nobody's; or its owner's connection had ended. */
static struct session *owner_of(const struct registry *registry, const gpushare_Stand *stand)
{
	static const uint8_t none[GPUSHARE_SESSION_KEY_SIZE];

	return memcmp(stand->key, none, sizeof(none))
		   ? session_find_key(&registry->sessions, stand->key)
		   : NULL;
}

static unsigned int *load_stand(struct registry *registry, const gpushare_Stand *stand)
{
	const record *info = &stand->buffer;
	struct session *session = owner_of(registry, stand);
	struct entry *same = store_find_generation(&registry->store, info->generation), *entry;

	if (!name_is_valid(info->name) || !info->generation ||
	    (!session && (stand->nameless || !entry_stays(info->flags))))
		return NULL;
	if (same && same->nameless)
		buffer_end(&registry->state, same);
	else if (same)
		buffer_drop(&registry->state, same);
	entry = stand->nameless ? NULL : store_find(&registry->store, info->name);
	if (entry)
		buffer_drop(&registry->state, entry);
	entry = stand->nameless ? stand_nameless(registry, session, stand)
				: stand_named(registry, session, stand);
	return entry ? &entry->record_slot : NULL;
}

static unsigned int *load_use(struct registry *registry, const gpushare_Use *use)
{
	struct session *session = session_find_key(&registry->sessions, use->key);
	struct attachment *attachment = NULL;

	if (session && name_is_valid(use->name) && use->count)
		attachment = session_set(&registry->sessions, session, use->name, use->generation,
					 use->count);
	return attachment ? &attachment->record_slot : NULL;
}

static unsigned int *load_play(struct registry *registry, const gpushare_Play *play)
{
	struct session *session = session_find_key(&registry->sessions, play->key);
	struct participant *participant = NULL;

	if (session && play->generation && play->roles)
		participant =
		    participant_load(registry, session, play->generation, play->roles, play->slot);
	return participant ? &participant->record_slot : NULL;
}

/* Where the thing notes its record. */
static unsigned int *load_one(struct registry *registry, const gpushare_State *what)
{
	switch (what->which_change) {
	case gpushare_State_peer_tag:
		return load_peer(registry, &what->change.peer);
	case gpushare_State_stand_tag:
		return load_stand(registry, &what->change.stand);
	case gpushare_State_use_tag:
		return load_use(registry, &what->change.use);
	case gpushare_State_play_tag:
		return load_play(registry, &what->change.play);
	}
	return NULL; /* what is of no kind that we know is a later version's */
}

static bool read_record(void *context, const gpushare_State *what, unsigned int slot)
{
	struct registry *registry = context;
	unsigned int *record_slot;

	if (what->which_change == gpushare_State_begin_tag)
		return load_begin(registry, &what->change.begin, slot);
	if (!registry->record_slot)
		return false; /* what holds for all of it comes first */
	record_slot = load_one(registry, what);
	if (record_slot)
		save_at(registry, record_slot, slot);
	else
		save_forget(registry, slot);
	return true;
}

bool load_records(struct registry *registry)
{
	struct entry *entry;
	bool goes_on;

	registry->loading = true;
	goes_on = records_read(&registry->records, read_record, registry);
	registry->loading = false;
	for (entry = store_after(&registry->store, ""); entry;
	     entry = store_after(&registry->store, entry->info.name)) {
		generation_pass(&registry->generation, entry->info.generation);
		tally_put(&registry->tallies, entry);
	}
	for (entry = store_deferred_after(&registry->store, 0); entry;
	     entry = store_deferred_after(&registry->store, entry->info.generation)) {
		generation_pass(&registry->generation, entry->info.generation);
		tally_put(&registry->tallies, entry);
	}
	for (struct session *session = registry->sessions.by_id; session;
	     session = session->hh.next) {
		for (struct attachment *each = session->attachments; each; each = each->next) {
			generation_pass(&registry->generation, each->generation);
			entry = buffer_find(&registry->state, each->name, each->generation);
			if (entry)
				buffer_join(session, each, entry);
		}
	}
	return goes_on && !registry->loaded_namespace;
}

/* What was put last is read last. */
static bool read_config(void *context, const gpushare_State *what, unsigned int slot)
{
	const gpushare_Begin *begin = &what->change.begin;

	(void)slot;
	if (what->which_change == gpushare_State_begin_tag && is_of_now(begin))
		snprintf(context, OPTIONS_CONFIG_MAX, "%s", begin->config);
	return what->which_change == gpushare_State_begin_tag;
}

bool load_config(const char *directory, char out_config[OPTIONS_CONFIG_MAX])
{
	struct records records;

	*out_config = '\0';
	records_init(&records);
	records_open(&records, open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (records.directory >= 0)
		records_read(&records, read_config, out_config);
	records_close(&records, true);
	return *out_config;
}
