/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_STATE_H
#define GPUSHARE_REGISTRY_STATE_H
/*
 * All that the registry remembers: users, sessions, buffers with and without a name. No clock and
 * no I/O: the caller sets the time, and an observer passes each change on. buffer.h has the
 * operations on buffers.
 */
#include "state/session.h"
#include "state/entry.h"
#include "state/users.h"

/* Why a name was removed. */
enum departure {
	DEPARTURE_OWNER_GONE, /* the connection ended */
	DEPARTURE_WITHDRAWN,  /* its owner freed it */
	DEPARTURE_EXPIRED,    /* kept, and its ttl ran out */
	DEPARTURE_LOST,	      /* after a restart, nobody was left to bring its memory back */
	DEPARTURE_UNLINKED,   /* somebody with the right to do so unlinked it */
};

/* Tombstones: the owner of a removed name, and why it was removed. Only the latest ones are kept,
 * and only for a while. */
struct tombstone {
	char name[GPUSHARE_NAME_MAX + 1]; /* "": none */
	struct process owner;
	uint32_t gid, mode;
	bool staged; /* nobody but its owner's process has seen it */
	enum departure how;
	int64_t when_ns;
};

/* Changes, for the state's one observer. It is called under the lock, before any client gets an
 * answer, and must not add or remove a buffer, an attachment or a session. */
enum change_kind {
	/* Changes of `entry`, which has a name: */
	CHANGE_SHARE, /* `session` has shared it */
	/* it was kept without an owner; `session` owns it now; flags, mode and group may be new */
	CHANGE_RETURN,
	CHANGE_HOLD, /* its descriptor has been set, and isn't in the fd store */
	/* its tags, or the data on its owner's process, are new; or a part has got its
	 * descriptor */
	CHANGE_UPDATE,
	CHANGE_COMMIT,	/* its owner `session` has ended its staged state */
	CHANGE_ORPHAN,	/* its owner has left; it is kept */
	CHANGE_REPLACE, /* `session` is about to replace it by a new generation */
	CHANGE_REMOVE,	/* about to be removed; `how` says why */
	/* Changes of `entry`, which has no name: */
	/* it has lost its name (`how`); it is attached, or its owner doesn't know of the loss */
	CHANGE_DEFER,
	CHANGE_CONFIRM, /* its owner holds the memory for its attachers */
	CHANGE_FREE,	/* about to be removed; while records are read, it may have a name */
	/* Changes of `attachment`, of `session` to `entry` (NULL: the registry has no such
	 * buffer): */
	CHANGE_ATTACH, /* its count has grown */
	CHANGE_DETACH, /* its count has fallen; at 0 it is about to be freed */
	/* Changes of `participant`: its roles in a stream-sync page */
	CHANGE_ROLES,
	/* Changes of `session`: */
	CHANGE_SEEN,  /* what is known of its process has changed */
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

/* No clock and no counter reaches this number. */
#define GENERATION_SANE (UINT64_MAX / 2)
/* The highest generation that the registry accepts from a client. Counting on from there never
 * reaches GENERATION_SANE. */
#define GENERATION_CLIENT_MAX (GENERATION_SANE / 2)

struct state {
	int64_t now_ns;	  /* CLOCK_MONOTONIC, when the lock was taken */
	uint64_t unix_ns; /* the same, CLOCK_REALTIME */
	struct users users;
	struct store store;
	struct sessions sessions;
	struct session *ending; /* sessions that are removed in pieces, the first one now */
	struct tree kept;	/* buffers without an owner, by deadline */
	struct tombstone tombstones[LIMIT_TOMBSTONES]; /* a ring */
	unsigned int next_tombstone;
	/*
	 * The latest generation. Generations are never reused, not even after a restart of the
	 * registry. They begin at the microseconds since boot, and fewer than one per microsecond
	 * is assigned. Descriptors in the fd store take their numbers from here, too. Nothing with
	 * a generation outlives the kernel, so they may start again after a reboot.
	 */
	uint64_t generation;
	/* The registry knows all generations above this one: if it has no buffer of such a
	 * generation, it has removed that buffer. */
	uint64_t since;
	void (*observe)(void *context, const struct change *change);
	void *context;
};

/* Generation `used` is in use: assign only higher ones. */
static inline void generation_pass(struct state *state, uint64_t used)
{
	if (used > state->generation && used <= GENERATION_SANE)
		state->generation = used;
}

void tombstone_add(struct state *state, const struct entry *entry, enum departure how);
/* The latest tombstone of that name; NULL: none, or too old. */
const struct tombstone *tombstone_find(const struct state *state, const char *name);

void state_init(struct state *state);
/* Report a change: state_emit(state, .kind = CHANGE_FREE, .entry = entry). */
#define state_emit(state, ...) \
	((state)->observe((state)->context, &(const struct change){__VA_ARGS__}))

/* Begin to end a session whose connection has ended. Peers no longer find the session, nor its
 * buffers unless these stay kept. state_end_one() removes what the session has. */
void state_leave(struct state *state, struct session *session);
/* Remove one entry or attachment of a session that has left. false: nothing is left, and the
 * session can be freed. */
bool state_end_one(struct state *state, struct session *session);
/* If the session that has this name is ending, remove the name now. */
void state_end_name(struct state *state, const char *name);
/* As user_reached(). But if the limit is reached, first remove a part of what ending sessions have,
 * to make room. If that isn't enough, count a refusal. */
unsigned int state_limit(struct state *state, struct user *user, enum limit what, uint64_t more);
/* The data on the session's process is new: report that, and an update of each of its buffers. */
void state_see(struct state *state, struct session *session);

#endif
