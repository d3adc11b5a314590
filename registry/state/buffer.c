/* SPDX-License-Identifier: MIT */
#include "state/buffer.h"

#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "state/session.h"

struct entry *buffer_find(const struct state *state, const char *name, uint64_t generation)
{
	struct entry *entry = store_find_generation(&state->store, generation);

	return entry && !strcmp(entry->name, name) ? entry : NULL;
}

bool buffer_has_gone(const struct state *state, const char *name, uint64_t generation)
{
	const struct tombstone *tombstone = tombstone_find(state, name);

	return generation > state->since && !(tombstone && tombstone->how == DEPARTURE_LOST);
}

/* Whether the session attaches its own process's memory, which isn't counted among the attachers.
 * But a buffer shared by descriptor counts: its owner maps it again, as any attacher does. */
static bool is_own(const struct session *session, const struct entry *entry)
{
	return entry->session && process_is_same(&session->peer, entry_owner(entry)) &&
	       !backing_is_fd(entry->info.backing);
}

void buffer_join(const struct session *session, struct attachment *attachment, struct entry *entry)
{
	attachment->own = is_own(session, entry);
	if (!attachment->own)
		entry->info.attachers += attachment->count;
}

static void join_all(struct state *state, struct entry *entry)
{
	for (struct session *session = state->sessions.by_id; session; session = session->hh.next) {
		struct attachment *attachment =
		    session_find_attachment(session, entry->info.generation);

		if (attachment)
			buffer_join(session, attachment, entry);
	}
}

static void own(struct entry *entry, struct session *session)
{
	user_uncharge(entry);
	entry->session = session;
	entry->synced = session->round;
	free(entry->parted);
	entry->parted = NULL;
	entry->deadline_ns = INT64_MAX;
	entry->info.owner_gone = false;
	user_charge(session->user, entry);
	DL_APPEND(session->entries, entry);
}

/* Remove the entry from its session, or from state.kept if it has none. */
static void disown(struct state *state, struct entry *entry)
{
	if (entry->session)
		DL_DELETE(entry->session->entries, entry);
	else
		tree_remove(&state->kept, &entry->kept, entry);
}

/* Remove a buffer that `made` replaces. Its record and its place in the index are overwritten. */
static void replace(struct state *state, struct entry *old, struct entry *made)
{
	made->record_slot = old->record_slot;
	made->indexed = old->indexed;
	disown(state, old);
	store_remove(&state->store, old);
}

struct entry *buffer_add(struct state *state, struct session *session, const record *info,
			 const uint8_t *handle, uint64_t again, struct entry *old)
{
	struct entry *entry = entry_new(info, handle);

	if (!entry)
		return NULL;
	if (old && !old->info.nameless)
		state_emit(state, .kind = CHANGE_REPLACE, .entry = old, .session = session);
	if (old)
		replace(state, old, entry);
	generation_pass(state, again);
	store_number(&state->store, entry, again ? again : ++state->generation);
	store_name(&state->store, entry);
	if (!entry->info.mode)
		entry->info.mode = ACCESS_MODE_DEFAULT;
	entry->info.attachers = 0;
	entry->info.missing = entry->info.deferred = false;
	entry->info.created_unix_ns = state->unix_ns;
	own(entry, session);
	if (again)
		join_all(state, entry);
	state_emit(state, .kind = CHANGE_SHARE, .entry = entry, .session = session);
	return entry;
}

void buffer_hold(struct state *state, struct entry *entry, struct fdref *fdref)
{
	entry->fdref = fdref;
	entry->info.missing = false;
	fdref->stored = ++state->generation;
	state_emit(state, .kind = CHANGE_HOLD, .entry = entry, .session = entry->session);
}

void buffer_hold_part(struct state *state, struct entry *part, const struct entry *whole)
{
	part->fdref = fdref_again(whole->fdref);
	state_emit(state, .kind = CHANGE_UPDATE, .entry = part, .session = part->session);
}

bool buffer_tag(struct state *state, struct entry *entry, const gpushare_Tag *tags, pb_size_t count)
{
	struct user *user = user_uncharge(entry);
	bool tagged = entry_tag(entry, tags, count);

	user_charge(user, entry);
	if (!tagged)
		return false;
	state_emit(state, .kind = CHANGE_UPDATE, .entry = entry, .session = entry->session);
	return true;
}

void buffer_commit(struct state *state, struct entry *entry)
{
	struct user *user = user_uncharge(entry);

	entry->info.flags &= ~(uint32_t)GPUSHARE_FLAG_STAGED;
	user_charge(user, entry);
	/* Attachments made while the buffer was staged were marked quiet. The buffer is public now:
	 * send notices about them too. */
	for (struct session *session = state->sessions.by_id; session; session = session->hh.next) {
		struct attachment *attachment =
		    session_find_attachment(session, entry->info.generation);

		if (attachment)
			attachment->quiet = false;
	}
	state_emit(state, .kind = CHANGE_COMMIT, .entry = entry, .session = entry->session);
}

void buffer_end(struct state *state, struct entry *entry)
{
	state_emit(state, .kind = CHANGE_FREE, .entry = entry);
	disown(state, entry);
	store_remove(&state->store, entry);
}

void buffer_remove(struct state *state, struct entry *entry, enum departure how)
{
	tombstone_add(state, entry, how);
	state_emit(state, .kind = CHANGE_REMOVE, .entry = entry, .how = how);
	disown(state, entry);
	store_remove(&state->store, entry);
}

bool buffer_lose(struct state *state, struct entry *entry)
{
	if (!entry->info.missing || entry->session || entry->info.attachers)
		return false;
	buffer_remove(state, entry, DEPARTURE_LOST);
	return true;
}

/* Buffers without a deadline come last. */
int buffer_compare_kept(const void *key, const struct tree_node *node)
{
	const struct entry *a = key, *b = TREE_OF(struct entry, kept, node);

	if (a->deadline_ns != b->deadline_ns)
		return a->deadline_ns < b->deadline_ns ? -1 : 1;
	return (a->info.generation > b->info.generation) -
	       (a->info.generation < b->info.generation);
}

struct entry *buffer_next_kept(const struct state *state, const struct entry *entry)
{
	static const struct entry first = {.deadline_ns = INT64_MIN};

	return TREE_FOUND(struct entry, kept, tree_above(&state->kept, entry ? entry : &first));
}

void buffer_load_kept(struct state *state, struct entry *entry)
{
	entry->session = NULL;
	if (!entry->info.owner_gone && entry->info.ttl_s)
		entry->deadline_ns = state->now_ns + entry->info.ttl_s * NS_PER_S;
	entry->info.owner_gone = true;
	tree_insert(&state->kept, &entry->kept, entry);
}

void buffer_orphan(struct state *state, struct entry *entry, const struct process *owner)
{
	disown(state, entry);
	entry_part(entry, owner);
	buffer_load_kept(state, entry);
	state_emit(state, .kind = CHANGE_ORPHAN, .entry = entry);
	buffer_lose(state, entry);
}

bool buffer_part(struct state *state, struct entry *entry, enum departure how)
{
	if (entry_stays(entry->info.flags)) {
		buffer_orphan(state, entry, entry_owner(entry));
		return true;
	}
	buffer_remove(state, entry, how);
	return false;
}

void buffer_return(struct state *state, struct entry *entry, struct session *session,
		   uint32_t flags, uint32_t ttl_s)
{
	disown(state, entry);
	user_uncharge(entry);
	entry->info.flags = flags;
	entry->info.ttl_s = ttl_s;
	own(entry, session);
	state_emit(state, .kind = CHANGE_RETURN, .entry = entry, .session = session);
}

bool buffer_is_alike(const struct entry *entry, const record *info)
{
	return entry->info.size == info->size && entry->info.backing == info->backing &&
	       !memcmp(entry->info.device_uuid, info->device_uuid, sizeof(info->device_uuid));
}

void buffer_defer(struct state *state, struct entry *entry, enum departure how, bool unsynced)
{
	struct user *user = entry->user;

	tombstone_add(state, entry, how);
	user_uncharge(entry);
	store_unname(&state->store, entry);
	entry->info.missing = false;
	entry->info.deferred = how != DEPARTURE_UNLINKED && !unsynced;
	entry->info.unsynced = unsynced;
	user_charge(user, entry);
	state_emit(state, .kind = CHANGE_DEFER, .entry = entry, .how = how);
}

void buffer_confirm(struct state *state, struct entry *entry)
{
	struct user *user = user_uncharge(entry);

	entry->info.deferred = true;
	entry->info.unsynced = false;
	user_charge(user, entry);
	state_emit(state, .kind = CHANGE_CONFIRM, .entry = entry, .session = entry->session);
}

struct attachment *buffer_attach(struct state *state, struct session *session, const char *name,
				 uint64_t generation, unsigned int count)
{
	struct entry *entry = store_find_generation(&state->store, generation);
	struct attachment *attachment = session_find_attachment(session, generation);
	unsigned int before = attachment ? attachment->count : 0;
	bool counted;

	attachment = session_set(session, name, generation, count);
	if (!attachment || count == before)
		return attachment;
	if (entry && !before)
		attachment->own = is_own(session, entry);
	if (entry && count)
		attachment->quiet = entry_is_staged(entry->info.flags);
	counted = entry && !attachment->own;
	if (counted)
		entry->info.attachers += count - before;
	state_emit(state, .kind = count > before ? CHANGE_ATTACH : CHANGE_DETACH, .entry = entry,
		   .session = session, .attachment = attachment);
	if (count)
		return attachment;
	free(attachment);
	if (counted)
		buffer_lose(state, entry);
	return NULL;
}
