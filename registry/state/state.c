/* SPDX-License-Identifier: MIT */
#include "state/state.h"

#include "os/piece.h"
#include "state/buffer.h"

#define END_TRIES 8

void state_init(struct state *state)
{
	*state = (struct state){.kept = {.compare = buffer_compare_kept}};
	limits_init(&state->users.limits);
	store_init(&state->store);
}

void state_emit(struct state *state, const struct change *change)
{
	if (state->observe)
		state->observe(state->context, change);
}

struct session *state_connect(struct state *state, uint32_t id, const struct process *peer)
{
	struct user *user = user_of(&state->users, peer->uid);

	return user ? session_new(&state->sessions, id, peer, user) : NULL;
}

void state_leave(struct state *state, struct session *session)
{
	state_emit(state, &(struct change){.kind = CHANGE_LEAVE, .session = session});
	if (!session->disconnected)
		session_disconnect(&state->sessions, session);
	session->ending = true;
	/* at the front, so that a small session is removed at once */
	DL_PREPEND(state->ending, session);
}

static void end_entry(struct state *state, struct entry *entry)
{
	struct session *session = entry->session;

	if (entry->nameless)
		buffer_end(state, entry);
	else if (buffer_part(state, entry))
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
		buffer_detach(state, session, attachment, attachment->count);
	} else {
		return false;
	}
	return true;
}

void state_end_others(struct state *state)
{
	struct session *first = state->ending;

	if (first && first->next) {
		DL_DELETE(state->ending, first);
		DL_APPEND(state->ending, first);
	}
}

void state_free_session(struct state *state, struct session *session)
{
	if (session->ending)
		DL_DELETE(state->ending, session);
	session_free(&state->sessions, session);
}

void state_end_name(struct state *state, const char *name)
{
	struct entry *entry = state->ending ? store_find(&state->store, name) : NULL;

	if (entry && entry->session && entry->session->ending)
		end_entry(state, entry);
}

/* Remove up to PIECE_LEAST entries or attachments of ending sessions of that user (NULL: of
 * any). false: there were none. */
static bool end_some(struct state *state, const struct user *user)
{
	struct session *session;
	int ended = 0;

	DL_FOREACH (state->ending, session) {
		while ((!user || session->user == user) && ended < PIECE_LEAST &&
		       state_end_one(state, session))
			ended++;
	}
	return ended;
}

unsigned int state_limit(struct state *state, struct user *user, enum limit what, uint64_t more)
{
	unsigned int index = user_reached(user, what, more);

	/* Removing what ending sessions have makes room, but names that stay kept don't, so the
	 * tries are limited. */
	for (int tries = 0; index && tries < END_TRIES; tries++) {
		if (!end_some(state, index > LIMIT_KINDS ? user : NULL))
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

	state_emit(state, &(struct change){.kind = CHANGE_SEEN, .session = session});
	DL_FOREACH (session->entries, entry) {
		state_emit(state, &(struct change){.kind = CHANGE_UPDATE, .entry = entry});
	}
}
