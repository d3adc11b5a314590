/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_CONNECTION_H
#define GPUSHARE_REGISTRY_SERVER_CONNECTION_H
/*
 * A connection to registry.sock: an nng stream that speaks SP's REP, so that any REQ socket of nng
 * can connect. A connection with something to do is listed in server->todo until connections_run()
 * gives it a turn. During a turn, no other thread uses the connection. Never call nng under the
 * registry's lock.
 */
#include "server/server.h"

struct bytes {
	uint8_t *at;
	size_t size, room;
};

struct connection {
	struct server *server;
	struct user *user;
	nng_stream *stream;
	/* for the operation that waits: to receive requests, or to send answers */
	nng_aio *aio;
	nng_aio *now_aio;      /* for sending without waiting */
	uint32_t id, uid, gid; /* `id` is also that of its session */
	int32_t pid;

	/* Used by the connection's turn, or by `aio` while that is under way: */
	struct bytes in, out;
	size_t in_at, out_at; /* bytes of `in` that are handled, and of `out` that are sent */
	size_t wanted;	      /* bytes to receive next, at most */
	/* Since when the greeting or a message is incomplete, for the timeout: when the connection
	 * was opened, or when the first part of that message came. 0: nothing is incomplete. */
	int64_t begun_ns;
	int64_t out_since_ns;
	bool greeted, asked;
	bool ready; /* `aio` was not under way when the turn began */
	bool came;  /* `aio` has ended, and take_result() is still to come */
	bool sends; /* `aio` sends; false: it receives */

	/* Protected by server->turns, except that the connection's turn sets `waits` without it. */
	bool waits;			/* `aio` is under way */
	bool listed;			/* in server->todo */
	bool busy, again;		/* a turn is under way; another one must follow */
	bool delayed;			/* in user->delayed */
	struct connection *prev, *next; /* in user->todo or user->delayed */

	/* Protected by the registry's lock: */
	struct session *session; /* NULL: before the peer's greeting, and after the session's end */
	struct bytes pending;	 /* answers to send after those in `out` */
	unsigned int parked;	 /* number of its requests in registry->asks */
	bool in_pieces;		 /* one of those requests is done in pieces */
	/* a turn is under way, and will look at these fields before it ends */
	bool turning;
	bool failed; /* an answer was lost for lack of memory */
	/* The connection has no session any more, and is freed when nothing uses it. */
	bool ended;
};

/* Make a connection that owns the stream, and list it for a turn. On failure, free the stream. */
void connection_open(struct server *server, nng_stream *stream);

/* Give turns to some connections in server->todo, unless enough other threads do that. Call this in
 * a thread of nng, without the registry's lock. */
void connections_run(struct server *server);
/* Let another thread of nng call connections_run() soon, if connections are listed. */
void connections_kick(struct server *server);

/* Call the functions below with the registry's lock held. */
void connection_answer(struct connection *connection, const uint8_t *ids, size_t ids_size,
		       const uint8_t *answer, size_t size);
/* End the connection's session now, and the connection soon. */
void connection_end(struct connection *connection);

#endif
