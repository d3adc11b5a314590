/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STATE_H
#define GPUSHARE_REGISTRY_STATE_H
/*
 * All that the registry remembers: users, sessions, buffers with and without a name. No clock and no I/O: the
 * caller sets the time, and an observer carries each change on. buffer.h has what happens to buffers.
 */
#include "state/change.h"
#include "state/generation.h"
#include "state/session.h"
#include "state/store.h"
#include "state/tombstone.h"
#include "state/users.h"

struct state {
	int64_t now_ns;	  /* CLOCK_MONOTONIC, when the lock was taken */
	uint64_t unix_ns; /* the same, CLOCK_REALTIME */
	struct users users;
	struct store store;
	struct sessions sessions;
	struct session *ending; /* sessions that go piece by piece; the first goes first */
	struct tree kept;	/* buffers without an owner, by deadline */
	struct tombstones tombstones;
	struct generation generation;
	uint64_t since; /* a generation above this one is here, or has gone */
	void (*observe)(void *context, const struct change *change); /* NULL: nobody */
	void *context;
};

void state_init(struct state *state);
/* All sessions have ended. */
void state_finish(struct state *state);
void state_emit(struct state *state, const struct change *change);

/* A peer came. NULL: out of memory. */
struct session *state_connect(struct state *state, uint32_t id, const struct process *peer);
/* Its connection has ended. Nobody finds it, or what it had, any more; state_end_one() ends that. */
void state_leave(struct state *state, struct session *session);
/* One thing of a session that has left. false: it has nothing any more, and can be freed. */
bool state_end_one(struct state *state, struct session *session);
/* That name is ended out of turn, if its session is ending. */
void state_end_name(struct state *state, const char *name);
/* user_reached(), which is counted. For a name, some of ending sessions are ended out of turn first. */
unsigned int state_limit(struct state *state, struct user *user, enum limit what, uint64_t more);
/* Nothing is left of it. */
void state_free_session(struct state *state, struct session *session);
/* `session` is seen as another process, or as the same one otherwise: so are its buffers. */
void state_see(struct state *state, struct session *session);

#endif
