/* SPDX-License-Identifier: MIT */
#include "persist/persist.h"

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

#define DISCONNECTED_FIRST 0x80000000u /* ids of connections are lower: ID_MOST in connection.c */

/* Fields of struct process and gpushare_Session */
#define PROCESS_FIELDS(F) \
	F(pid) F(uid) F(started) F(stack) F(own_namespace) F(own_pid) F(own_started)

void save_session(struct registry *registry, struct session *session)
{
	gpushare_State what = {.which_change = gpushare_State_session_tag};
	gpushare_Session *saved = &what.change.session;
	const struct process *peer = &session->peer;

	memcpy(saved->key, session->key, sizeof(saved->key));
	strcpy(saved->command, peer->command);
#define F(field) saved->field = peer->field;
	PROCESS_FIELDS(F)
#undef F
	records_put(registry->records, &what, &session->record_slot);
}

static void need_session(struct registry *registry, struct session *session)
{
	if (!records_has(registry->records, session->record_slot) && !session->ending)
		save_session(registry, session);
}

void save_entry(struct registry *registry, struct entry *entry)
{
	gpushare_State what = {.which_change = gpushare_State_entry_tag};
	gpushare_Entry *saved = &what.change.entry;
	int64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_ns();

	/* If the buffer is shared by descriptor, write its record only after the descriptor is in
	 * the fd store: a successor must find both. */
	if (!records_are_kept(registry->records) ||
	    (backing_is_fd(entry->info.backing) && !entry->info.nameless && !entry->fdref &&
	     !entry->info.missing))
		return;
	if (entry->session) {
		need_session(registry, entry->session);
		memcpy(saved->key, entry->session->key, sizeof(saved->key));
	}
	saved->has_buffer = true;
	entry_describe(entry, &saved->buffer);
	memcpy(saved->handle, entry->handle, sizeof(saved->handle));
	if (entry->deadline_ns != INT64_MAX)
		saved->deadline_boot_ns = entry->deadline_ns + boot_ns;
	saved->nameless = entry->info.nameless;
	saved->unsynced = entry->info.unsynced;
	if (entry->fdref)
		saved->stored = entry->fdref->stored;
	records_put(registry->records, &what, &entry->record_slot);
}

void save_attachment(struct registry *registry, struct session *session,
		     struct attachment *attachment)
{
	gpushare_State what = {.which_change = gpushare_State_attachment_tag};
	gpushare_Attachment *saved = &what.change.attachment;

	if (!attachment->count)
		records_drop(registry->records, &attachment->record_slot);
	if (!attachment->count || !records_are_kept(registry->records))
		return;
	need_session(registry, session);
	memcpy(saved->key, session->key, sizeof(saved->key));
	strcpy(saved->name, attachment->name);
	saved->generation = attachment->generation;
	saved->count = attachment->count;
	records_put(registry->records, &what, &attachment->record_slot);
}

void save_participant(struct registry *registry, struct participant *participant)
{
	gpushare_State what = {.which_change = gpushare_State_participant_tag};
	gpushare_Participant *saved = &what.change.participant;

	if (!participant->roles)
		records_drop(registry->records, &participant->record_slot);
	if (!participant->roles || !records_are_kept(registry->records))
		return;
	need_session(registry, participant->session);
	memcpy(saved->key, participant->session->key, sizeof(saved->key));
	saved->generation = participant->order->generation;
	saved->roles = participant->roles;
	saved->slot = participant->slot;
	records_put(registry->records, &what, &participant->record_slot);
}

static void save_header(struct registry *registry)
{
	gpushare_State what = {.which_change = gpushare_State_header_tag};
	gpushare_Header *header = &what.change.header;
	uint64_t slot = 0;

	header->version = RECORDS_VERSION;
	header->since = registry->state.since;
	header->pid_namespace = registry->pid_namespace;
	records_boot(header->boot);
	records_put(registry->records, &what, &slot);
}

static void put_all(void *context)
{
	struct registry *registry = context;
	struct participant *role;
	struct attachment *each;
	struct entry *entry;

	save_header(registry);
	STORE_FOREACH (&registry->state.store, entry) {
		save_entry(registry, entry);
	}
	for (struct session *session = registry->state.sessions.by_id; session;
	     session = session->hh.next) {
		for (each = session_next(session, 0); each;
		     each = session_next(session, each->generation))
			save_attachment(registry, session, each);
		DL_FOREACH2 (session->participants, role, session_next) {
			save_participant(registry, role);
		}
	}
}

void save_all(struct registry *registry)
{
	records_rewrite(registry->records, put_all, registry);
}

void save_flush(struct registry *registry)
{
	if (registry->fdstore)
		fdstore_flush(registry->fdstore);
}

static bool load_header(struct registry *registry, const gpushare_Header *header)
{
	char boot[sizeof(header->boot)];

	records_boot(boot);
	if (header->version != RECORDS_VERSION || !*boot || strcmp(header->boot, boot) != 0) {
		log_line("%s is from before the last boot or of another version: it is ignored",
			 RECORDS_FILE);
		return false;
	}
	if (header->since < registry->state.since)
		registry->state.since = header->since;
	if (header->pid_namespace != registry->pid_namespace && header->pid_namespace &&
	    registry->pid_namespace)
		registry->loaded_namespace = header->pid_namespace;
	return true;
}

/* If the records are from another pid namespace, a process that sent no Hello.self is identified by
 * its pid there, even if the process runs in a nested namespace. */
static struct process process_of(const struct registry *registry, const gpushare_Session *saved)
{
#define F(field) .field = saved->field,
	struct process process = {PROCESS_FIELDS(F)};
#undef F

	strcpy(process.command, saved->command);
	if (registry->loaded_namespace)
		process_forget_pid(&process, registry->loaded_namespace);
	return process;
}

/* The functions below ignore what they can't restore. Records are read from the oldest on, so the
 * last one of each thing is valid. */

/* Two sessions' records with one key are of one process, whose identity was seen differently.
 * Either will do. */
static void load_session(struct registry *registry, const gpushare_Session *saved)
{
	const struct process peer = process_of(registry, saved);
	struct session *session;

	if (session_find_key(&registry->state.sessions, saved->key))
		return;
	session = registry_connect(
	    registry, DISCONNECTED_FIRST + registry->state.sessions.disconnected_ever++, &peer);
	if (!session)
		return;
	memcpy(session->key, saved->key, sizeof(session->key));
	session_disconnect(&registry->state.sessions, session);
}

/* Make the entry as it was saved, without its generation, to be put into the store. NULL: out of
 * memory. */
static struct entry *fill(const struct registry *registry, struct session *session,
			  const gpushare_Entry *saved)
{
	const record *info = &saved->buffer;
	struct entry *entry = entry_new(info, saved->handle);
	int64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME) - clock_ns();
	struct process owner = {
	    .pid = info->owner_pid, .uid = info->owner_uid, .started = info->owner_started};

	if (!entry)
		return NULL;
	entry->session = session;
	strcpy(owner.command, info->owner_command);
	if (registry->loaded_namespace)
		process_forget_pid(&owner, registry->loaded_namespace);
	if (!session)
		entry_part(entry, &owner);
	if (!session && !entry->parted) {
		entry_free(entry);
		return NULL;
	}
	entry->info.attachers = 0;
	entry->info.missing = false;
	if (backing_is_fd(entry->info.backing) && !saved->nameless)
		/* 0: from an older registry, which used the generation */
		entry->stored = saved->stored ? saved->stored : info->generation;
	entry->info.deferred = info->deferred && saved->nameless;
	entry->info.unsynced = saved->unsynced && saved->nameless;
	entry->deadline_ns =
	    saved->deadline_boot_ns ? saved->deadline_boot_ns - boot_ns : INT64_MAX;
	return entry;
}

static void load_entry(struct registry *registry, const gpushare_Entry *saved)
{
	const record *info = &saved->buffer;
	/* NULL: the buffer is kept without an owner, or the owner's session has ended */
	struct session *session = session_find_key(&registry->state.sessions, saved->key);
	struct entry *same = store_find_generation(&registry->state.store, info->generation),
		     *entry;
	struct user *user;

	if (!name_is_valid(info->name) || !info->generation ||
	    (!session && (saved->nameless || !entry_stays(info->flags))))
		return;
	if (same)
		buffer_end(&registry->state, same);
	entry = saved->nameless ? NULL : store_find(&registry->state.store, info->name);
	if (entry)
		buffer_end(&registry->state, entry);
	entry = fill(registry, session, saved);
	user = entry ? user_of(&registry->state.users, entry_owner(entry)->uid) : NULL;
	if (!user) {
		if (entry)
			entry_free(entry);
		return;
	}
	store_number(&registry->state.store, entry, info->generation);
	if (!saved->nameless)
		store_name(&registry->state.store, entry);
	if (session)
		DL_APPEND(session->entries, entry);
	else /* the owner's session may have ended before the buffer was saved as ownerless */
		buffer_load_kept(&registry->state, entry);
	user_charge(user, entry);
}

static void load_attachment(struct registry *registry, const gpushare_Attachment *saved)
{
	struct session *session = session_find_key(&registry->state.sessions, saved->key);

	if (session && name_is_valid(saved->name) && saved->generation && saved->count)
		session_set(session, saved->name, saved->generation, saved->count);
}

static void load_participant(struct registry *registry, const gpushare_Participant *saved)
{
	struct session *session = session_find_key(&registry->state.sessions, saved->key);

	if (session && saved->generation && saved->roles)
		participant_load(registry, session, saved->generation, saved->roles, saved->slot);
}

static bool read_record(void *context, const gpushare_State *what)
{
	struct registry *registry = context;

	if (what->which_change == gpushare_State_header_tag)
		registry->loading = load_header(registry, &what->change.header);
	if (!registry->loading) /* there is no valid header, which must come first */
		return false;
	switch (what->which_change) { /* ignores the kinds of later versions */
	case gpushare_State_session_tag:
		load_session(registry, &what->change.session);
		break;
	case gpushare_State_entry_tag:
		load_entry(registry, &what->change.entry);
		break;
	case gpushare_State_attachment_tag:
		load_attachment(registry, &what->change.attachment);
		break;
	case gpushare_State_participant_tag:
		load_participant(registry, &what->change.participant);
	}
	return true;
}

/* Give buffers that are shared by descriptor their descriptor from the fd store, or mark them as
 * missing. Also ensure that no new buffer or descriptor gets a number that is in use. */
static void take_descriptors(struct registry *registry)
{
	struct entry *entry;

	STORE_FOREACH (&registry->state.store, entry) {
		generation_pass(&registry->state, entry->info.generation);
		if (!backing_is_fd(entry->info.backing) || entry->info.nameless)
			continue;
		generation_pass(&registry->state, entry->stored);
		entry->fdref =
		    registry->fdstore ? fdstore_take(registry->fdstore, entry->stored) : NULL;
		entry->info.missing = !entry->fdref;
		if (entry->fdref)
			fdref_charge(entry->fdref, entry->user);
	}
}

void load_records(struct registry *registry)
{
	struct entry *entry;

	records_read(registry->records, read_record, registry);
	registry->loading = false;
	take_descriptors(registry);
	for (struct session *session = registry->state.sessions.by_id; session;
	     session = session->hh.next) {
		struct attachment *each = session_next(session, 0);

		for (; each; each = session_next(session, each->generation)) {
			generation_pass(&registry->state, each->generation);
			entry = store_find_generation(&registry->state.store, each->generation);
			if (entry)
				buffer_join(session, each, entry);
		}
	}
}

/* The registry can't see a process of another pid namespace. If Hello.self can identify it later,
 * its session has until unseen_until_ns to reconnect. */
static bool lives(const struct registry *registry, const struct session *session)
{
	if (session->peer.pid <= 0 && session->peer.own_namespace)
		return clock_ns() < registry->unseen_until_ns;
	return process_lives(&session->peer);
}

/* Watch the sessions' processes, and end the sessions whose process is dead. Check that after
 * watch_add(): a process may have ended before, and another one may have its pid. */
static void end_dead(struct registry *registry)
{
	struct session *session, *after;

	HASH_ITER (hh, registry->state.sessions.by_id, session, after) {
		session->watch = watch_add(session->peer.pid, session->id);
		if (!session_has_nothing(session) && lives(registry, session))
			continue;
		watch_remove(session->watch);
		state_leave(&registry->state, session);
	}
	registry_end(registry, INT64_MAX);
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
	load_records(registry);
	order_restore(registry);
	end_dead(registry);
	missing = end_lost(registry);
	save_all(registry);
	/* If the disk was full, save_all() has removed the old file, so try again. */
	if (!records_are_kept(registry->records))
		save_all(registry);
	fdstore_settle(registry->fdstore);
	STORE_FOREACH (&registry->state.store, entry) {
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
	if (registry->index.page) /* clients must stop using it */
		atomic_store(&registry->index.page->closed, 1);
	keep = registry->state.store.generations.root;
	if (keep && !records_stand(registry->records))
		save_all(registry);
	order_unmap_all(registry);
	registry->records = records_close(registry->records, keep);
	fdstore_close(registry->fdstore, keep);
	registry->fdstore = NULL; /* connections that end later must not use it */
	registry_unlock(registry);
}
