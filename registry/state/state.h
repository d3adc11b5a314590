/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STATE_H
#define GPUSHARE_REGISTRY_STATE_H
/*
 * All that the registry remembers: users, sessions, buffers with and without a name. No clock and no I/O: the
 * caller sets the time, and an observer carries each change on. buffer.h has what happens to buffers.
 */
#include "change.h"
#include "generation.h"
#include "session.h"
#include "store.h"
#include "tally.h"
#include "tombstone.h"
#include "users.h"

struct state {
	int64_t now_ns;	  /* CLOCK_MONOTONIC, when the lock was taken */
	uint64_t unix_ns; /* the same, CLOCK_REALTIME */
	struct users users;
	struct tally *tallies;
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
/* Ended out of turn: that name, if its session is ending; up to `most` names of that user (NULL: any) whose
 * sessions are ending. false: there was none. */
void state_end_name(struct state *state, const char *name);
bool state_end_some(struct state *state, const struct user *user, unsigned int most);
/* Nothing is left of it. */
void state_free_session(struct state *state, struct session *session);
/* `session` is seen as another process, or as the same one otherwise: so are its buffers. */
void state_see(struct state *state, struct session *session);

#endif
