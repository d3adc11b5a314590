/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_SHIM_API_RESYNC_H
#define GPUSHARE_SHIM_API_RESYNC_H
/*
 * A registry that was restarted is told what a session shares and has attached, in the session's next
 * call that asks it something: names and generations before the question, by who has the session's
 * client; the memory of what the registry wants again behind it. What a call has no time for is left
 * to the next one.
 */
#include "client/client.h"

struct gpushare_session;
struct gpushare_buffer;

struct resync_wanted {
	uint64_t generation;
	bool anew; /* by a registry that does not know what was before it */
};

/* A session's; under its lock. */
struct resync {
	unsigned int
	    connection;	    /* that is being told, or was: of the first there is nothing to tell */
	unsigned int round; /* buffers know which one told of them */
	unsigned int readings; /* parts that were told */
	bool goes_on;
	bool stale; /* once told, all is to be told once more */
	bool busy;  /* a thread shares again */
	struct gpushare_buffer
	    *at; /* the next to tell of; NULL: the first, till one that is told */
	struct resync_wanted *wanted;
	size_t count, room;
};

/* A client_resync; its owner is a session. */
int session_resync(struct client *client, void *owner, int64_t deadline_ms);
/* Share again what was asked for, until then. What gpushare_explain() says stays. No lock is held. */
void session_share_wanted(struct gpushare_session *session, int64_t until_ms);

/* Under the lock: the buffer leaves the session's list; or was counted there for what the registry
 * had said when there were so many readings. */
void session_resync_forget(struct gpushare_session *session, const struct gpushare_buffer *buffer);
void session_resync_check(struct gpushare_session *session, unsigned int readings);

void session_resync_finish(struct resync *resync);

#endif
