/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_CONNECTION_H
#define GPUSHARE_REGISTRY_SERVER_CONNECTION_H
/*
 * A connection to registry.sock: an nng stream that speaks SP's REP, so that every REQ of nng can
 * be its peer. A connection with something to do is listed in server->todo. connections_run() gives
 * it a turn, in which no other thread uses it. Never call nng under the registry's lock.
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
	nng_aio *aio;	       /* waits: to receive requests, or to send answers */
	nng_aio *now_aio;      /* to send without waiting */
	uint32_t id, uid, gid; /* `id` is also its session's */
	int32_t pid;

	/* Used by the turn, or by `aio` while that is under way: */
	struct bytes in, out;
	size_t in_at, out_at; /* bytes of `in` that are handled, of `out` that are sent */
	size_t wanted;	      /* bytes to receive next, at most */
	/* When the connection was opened, or later when the first part of a message came that is
	 * still incomplete. 0: nothing is incomplete. */
	int64_t begun_ns;
	int64_t out_since_ns;
	bool greeted, asked;
	bool ready; /* `aio` was not under way when the turn began */
	bool came;  /* `aio` has ended, and its result was not taken */
	bool sends; /* `aio` sends; else it receives */

	/* Protected by server->turns; but the connection's turn sets `waits` without it. */
	bool waits;			/* `aio` is under way */
	bool listed;			/* in server->todo */
	bool busy, again;		/* a turn is under way; another one follows */
	bool delayed;			/* in user->delayed */
	struct connection *prev, *next; /* in user->todo or user->delayed */

	/* Protected by the registry's lock: */
	struct session *session; /* NULL: before the peer's greeting, and after the session's end */
	struct bytes pending;	 /* answers to send after those in `out` */
	unsigned int parked;	 /* number of parked requests: ask.h */
	bool in_pieces;		 /* one of these is done in pieces */
	bool turning;		 /* a turn is under way, and will look at these fields */
	bool failed;		 /* an answer was lost for lack of memory */
	/* The session has ended. The connection is freed when nothing uses it any more. */
	bool ended;
};

/* Make a connection that owns the stream, and put it on server->todo. On failure the stream is
 * freed. */
void connection_open(struct server *server, nng_stream *stream);

/* Give turns to some connections in server->todo, unless enough threads do that. To be called in a
 * thread of nng, without the registry's lock. */
void connections_run(struct server *server);
/* Let another thread of nng do the same soon. */
void connections_kick(struct server *server);

/* With the registry's lock held: */
void connection_answer(struct connection *connection, const uint8_t *ids, size_t ids_size,
		       const uint8_t *answer, size_t size);
/* End the connection's session now, and the connection soon. */
void connection_end(struct connection *connection);

#endif
