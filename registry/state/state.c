/* SPDX-License-Identifier: MIT */
#include "state/state.h"

#include <string.h>

#include "os/clock.h"
#include "state/buffer.h"

#define END_TRIES 128

void state_init(struct state *state)
{
	*state = (struct state){.kept = {.compare = buffer_compare_kept}};
	limits_init(&state->users.limits);
	store_init(&state->store);
}

void tombstone_add(struct state *state, const struct entry *entry, enum departure how)
{
	struct tombstone *tombstone = &state->tombstones[state->next_tombstone];

	state->next_tombstone = (state->next_tombstone + 1) % LIMIT_TOMBSTONES;
	*tombstone = (struct tombstone){
	    .owner = *entry_owner(entry),
	    .gid = entry->info.owner_gid,
	    .mode = entry->info.mode,
	    .staged = entry_is_staged(entry->info.flags),
	    .how = how,
	    .when_ns = state->now_ns,
	};
	strcpy(tombstone->name, entry->name);
}

const struct tombstone *tombstone_find(const struct state *state, const char *name)
{
	for (unsigned int back = 1; back <= LIMIT_TOMBSTONES; back++) {
		unsigned int at =
		    (state->next_tombstone + LIMIT_TOMBSTONES - back) % LIMIT_TOMBSTONES;
		const struct tombstone *tombstone = &state->tombstones[at];

		if (!*tombstone->name ||
		    state->now_ns - tombstone->when_ns > LIMIT_TOMBSTONE_S * NS_PER_S)
			return NULL; /* all others are older still */
		if (!strcmp(tombstone->name, name))
			return tombstone;
	}
	return NULL;
}

void state_leave(struct state *state, struct session *session)
{
	state_emit(state, .kind = CHANGE_LEAVE, .session = session);
	if (!session->disconnected)
		session_disconnect(&state->sessions, session);
	session->ending = true;
	/* at the front, so that a small session is removed at once */
	DL_PREPEND(state->ending, session);
}

static void end_entry(struct state *state, struct entry *entry)
{
	struct session *session = entry->session;

	if (entry->info.nameless)
		buffer_end(state, entry);
	else if (buffer_part(state, entry, DEPARTURE_OWNER_GONE))
		session->ended.kept++;
	else
		session->ended.names++;
}

bool state_end_one(struct state *state, struct session *session)
{
	struct attachment *attachment = session_next(session, 0);

	if (session->entries) {
		end_entry(state, session->entries);
	} else if (attachment) {
		session->ended.attachments += attachment->count;
		buffer_attach(state, session, attachment->name, attachment->generation, 0);
	} else {
		return false;
	}
	return true;
}

void state_end_name(struct state *state, const char *name)
{
	struct entry *entry = state->ending ? store_find(&state->store, name) : NULL;

	if (entry && entry->session && entry->session->ending)
		end_entry(state, entry);
}

/* Remove one entry or attachment of an ending session of that user (NULL: of any). false: there is
 * none. */
static bool end_one_of(struct state *state, const struct user *user)
{
	struct session *session;

	DL_FOREACH (state->ending, session) {
		if ((!user || session->user == user) && state_end_one(state, session))
			return true;
	}
	return false;
}

unsigned int state_limit(struct state *state, struct user *user, enum limit what, uint64_t more)
{
	unsigned int index = user_reached(user, what, more);

	/* Removing what ending sessions have makes room, except for buffers that stay kept. So the
	 * tries are limited. */
	for (int tries = 0; index && tries < END_TRIES; tries++) {
		if (!end_one_of(state, index > LIMIT_KINDS ? user : NULL))
			break;
		index = user_reached(user, what, more);
	}
	if (index)
		user_count(user, limits[index - 1]);
	return index;
}

void state_see(struct state *state, struct session *session)
{
	struct entry *entry;

	state_emit(state, .kind = CHANGE_SEEN, .session = session);
	DL_FOREACH (session->entries, entry) {
		state_emit(state, .kind = CHANGE_UPDATE, .entry = entry);
	}
}
