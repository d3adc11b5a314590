/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STATE_H
#define GPUSHARE_REGISTRY_STATE_H
/*
 * All that the registry remembers: users, sessions, buffers with and without a name. No clock and
 * no I/O: the caller sets the time, and an observer passes each change on. buffer.h has the
 * operations on buffers.
 */
#include "state/session.h"
#include "state/store.h"
#include "state/tombstone.h"
#include "state/users.h"

/* Changes, for the state's one observer. It is called under the lock, before any client gets an
 * answer, and must not change a buffer or session itself. */
enum change_kind {
	/* Changes of `entry`, which has a name: */
	CHANGE_SHARE, /* `session` has shared it */
	/* it was kept without an owner; `session` owns it now, with its flags, mode and group */
	CHANGE_RETURN,
	CHANGE_HOLD,	/* its descriptor has been set */
	CHANGE_UPDATE,	/* its tags, or the data on its owner's process, are new */
	CHANGE_COMMIT,	/* its owner `session` has ended its staged state */
	CHANGE_ORPHAN,	/* its owner has left; it is kept */
	CHANGE_REPLACE, /* `session` is about to replace it by a new generation */
	CHANGE_REMOVE,	/* about to be removed; `how` says why */
	CHANGE_DROP,	/* about to be removed, without notice and audit */
	/* Changes of `entry`, which has no name: */
	/* it has lost its name (`how`); others have it attached, or its owner is not told */
	CHANGE_DEFER,
	CHANGE_CONFIRM, /* its owner holds the memory for its attachers */
	CHANGE_FREE,	/* about to be removed */
	/* Changes of `attachment`, of `session` to `entry` (NULL: the registry has no such
	 * buffer): */
	CHANGE_ATTACH, /* its count has grown */
	CHANGE_DETACH, /* its count has fallen; at 0 it is about to be freed */
	/* Changes of `participant`: its roles in a stream-sync page */
	CHANGE_ROLES,
	/* Changes of `session`: */
	CHANGE_SEEN,  /* the data on its process is new */
	CHANGE_LEAVE, /* its connection has ended; what it has is removed next */
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
 * Generation numbers are never reused, not even over a restart of the registry. They begin at the
 * microseconds since boot, and fewer than one in a microsecond are given out. Nothing with a
 * generation outlives the kernel, so another boot may begin anew.
 */
struct generation {
	uint64_t next;
};

/* No clock and no counter reaches this number. */
#define GENERATION_SANE (UINT64_MAX / 2)
/* The highest generation that the registry accepts from a client. Counting on from there never
 * reaches GENERATION_SANE. */
#define GENERATION_TOLD (GENERATION_SANE / 2)

static inline void generation_init(struct generation *generation, int64_t boot_ns)
{
	generation->next = (uint64_t)boot_ns / 1000;
}

/* Generation `used` is in use: give out only higher ones. */
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
	struct session *ending; /* sessions that are removed in pieces, the first one now */
	struct tree kept;	/* buffers without an owner, by deadline */
	struct tombstones tombstones;
	struct generation generation;
	/* The registry knows all generations above this one: if it doesn't have one, it removed
	 * it. */
	uint64_t since;
	/* NULL: there is no observer */
	void (*observe)(void *context, const struct change *change);
	void *context;
};

void state_init(struct state *state);
void state_emit(struct state *state, const struct change *change);

/* Create a session. NULL: out of memory. */
struct session *state_connect(struct state *state, uint32_t id, const struct process *peer);
/* Begin to end a session whose connection has ended. Peers no longer find it, nor its buffers
 * unless these stay kept. state_end_one() removes what it has. */
void state_leave(struct state *state, struct session *session);
/* Remove one entry or attachment of a session that has left. false: nothing is left, and the
 * session can be freed. */
bool state_end_one(struct state *state, struct session *session);
/* Move the session that is being removed behind the other ending ones. */
void state_end_others(struct state *state);
/* If the session that has this name is ending, remove the name now. */
void state_end_name(struct state *state, const char *name);
/* user_reached(), and count a refusal. First, a part of what ending sessions have is removed to
 * make room. */
unsigned int state_limit(struct state *state, struct user *user, enum limit what, uint64_t more);
/* Free a session that has nothing left. */
void state_free_session(struct state *state, struct session *session);
/* The data on the session's process is new: report that, and an update of each of its buffers. */
void state_see(struct state *state, struct session *session);

#endif
