/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STATE_H
#define GPUSHARE_REGISTRY_STATE_H
/*
 * All that the registry remembers: users, sessions, buffers with and without a name. No clock and no I/O: the
 * caller sets the time, and an observer carries each change on. buffer.h has what happens to buffers.
 */
#include "state/session.h"
#include "state/store.h"
#include "state/tombstone.h"
#include "state/users.h"

/*
 * What changes, for the state's one observer. It is called under the lock, before anybody is answered, and changes no
 * buffer or session itself.
 */
enum change_kind {
	/* Of `entry`, under its name */
	CHANGE_SHARE, /* a new generation, of `session` */
	CHANGE_RETURN, /* kept without an owner; `session` owns it now, with its flags, mode and group */
	CHANGE_HOLD,	/* its descriptor is here */
	CHANGE_UPDATE,	/* tags; owner's process as it is seen now */
	CHANGE_COMMIT,	/* staged no more; of `session` */
	CHANGE_ORPHAN,	/* its owner has gone, it is kept */
	CHANGE_REPLACE, /* about to be another generation, which `session` shares */
	CHANGE_REMOVE,	/* about to go, for `how` */
	CHANGE_DROP,	/* about to go, and nobody hears why */
	/* Of `entry`, without a name */
	CHANGE_DEFER, /* it lost its name for `how`; others have it attached, or its owner is not told */
	CHANGE_CONFIRM, /* its owner holds the memory for its attachers */
	CHANGE_FREE,	/* about to go */
	/* Of `session` and its `attachment`, to `entry`; NULL: that isn't here */
	CHANGE_ATTACH, /* more of them than before */
	CHANGE_DETACH, /* fewer; with a count of 0 it goes */
	/* Of `participant`: what it is in an order */
	CHANGE_ROLES,
	/* Of `session` */
	CHANGE_SEEN,  /* its process is seen otherwise than before */
	CHANGE_LEAVE, /* its connection has ended; all that it has goes next */
};

struct change {
	enum change_kind kind;
	enum departure how;
	struct entry *entry;
	struct session *session;
	struct attachment *attachment;
	struct participant *participant; /* order/order.h */
};

/*
 * Numbers that are never given twice, not over a restart either: they begin at the microseconds since the host was
 * started, a clock that nobody sets, and fewer are given than go by. Nothing that has one outlives the kernel.
 */
struct generation {
	uint64_t next;
};

/* No clock and no counting ever gets there. */
#define GENERATION_SANE (UINT64_MAX / 2)
/* The highest that a client is believed to have been given: no counting on from it passes the other. */
#define GENERATION_TOLD (GENERATION_SANE / 2)

static inline void generation_init(struct generation *generation, int64_t boot_ns)
{
	generation->next = (uint64_t)boot_ns / 1000;
}

/* That one is in use, wherever it came from. */
static inline void generation_pass(struct generation *generation, uint64_t used)
{
	if (used > generation->next && used <= GENERATION_SANE)
		generation->next = used;
}

static inline uint64_t generation_take(struct generation *generation)
{
	return ++generation->next;
}

struct state {
	int64_t now_ns;	  /* CLOCK_MONOTONIC, when the lock was taken */
	uint64_t unix_ns; /* the same, CLOCK_REALTIME */
	struct users users;
	struct store store;
	struct sessions sessions;
	struct session *ending; /* sessions that go piece by piece; the first goes now */
	struct tree kept;	/* buffers without an owner, by deadline */
	struct tombstones tombstones;
	struct generation generation;
	uint64_t since; /* a generation above this one is here, or has gone */
	void (*observe)(void *context, const struct change *change); /* NULL: nobody */
	void *context;
};

void state_init(struct state *state);
void state_emit(struct state *state, const struct change *change);

/* A peer came. NULL: out of memory. */
struct session *state_connect(struct state *state, uint32_t id, const struct process *peer);
/* Its connection has ended. Nobody finds it, or what it had, any more; state_end_one() ends that. */
void state_leave(struct state *state, struct session *session);
/* One thing of a session that has left. false: it has nothing any more, and can be freed. */
bool state_end_one(struct state *state, struct session *session);
/* The session that goes now lets the others go first. */
void state_end_others(struct state *state);
/* That name is ended out of turn, if its session is ending. */
void state_end_name(struct state *state, const char *name);
/* user_reached(), which is counted. Some of what ending sessions have is ended out of turn first. */
unsigned int state_limit(struct state *state, struct user *user, enum limit what, uint64_t more);
/* Nothing is left of it. */
void state_free_session(struct state *state, struct session *session);
/* `session` is seen as another process, or as the same one otherwise: so are its buffers. */
void state_see(struct state *state, struct session *session);

#endif
