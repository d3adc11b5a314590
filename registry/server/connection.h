/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_CONNECTION_H
#define GPUSHARE_REGISTRY_SERVER_CONNECTION_H
/*
 * A connection to registry.sock: an nng stream that speaks SP's REP, so that each REQ of nng can be its peer.
 * What happens to it is noted in server->todo; connections_run() gives it a turn, in which one thread has it for
 * itself. No call of nng is made under the registry's lock.
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
	nng_aio *aio;	       /* what it waits for: requests, or that answers can be sent */
	nng_aio *now_aio;      /* to send without waiting */
	uint32_t id, uid, gid; /* the id is its session's, too */
	int32_t pid;

	/* Of its turn, and of `aio` while that is under way: */
	struct bytes in, out;
	size_t in_at, out_at; /* bytes before these were handled, and sent */
	size_t wanted;	      /* at most so many bytes are received next */
	int64_t
	    begun_ns; /* when an unfinished message began, or a connection that hasn't asked yet */
	int64_t out_since_ns;
	bool greeted, asked;
	bool ready; /* `aio` was not under way when the turn began */
	bool came;  /* it has ended, and nobody has looked at its result */
	bool sends; /* it sends */

	/* Under server->turns: */
	bool waits;			/* `aio` is under way */
	bool listed;			/* in server->todo */
	bool busy, again;		/* a turn is under way; another one follows */
	struct connection *prev, *next; /* of its user's in server->todo */

	/* Under the registry's lock: */
	struct session *session; /* NULL: it hasn't greeted, or has ended */
	struct bytes pending;	 /* answers behind those in `out` */
	unsigned int parked;	 /* requests: ask.h */
	bool in_pieces;		 /* one of these is done piece by piece */
	bool turning;		 /* its turn will look at what changes here */
	bool failed;		 /* an answer was lost for lack of memory */
	bool ended; /* its session has ended; it is freed when nothing uses it any more */
};

/* Takes the stream, for connections_run() to go on with. */
void connection_open(struct server *server, nng_stream *stream);

/* In a thread of nng, without the registry's lock: some turns for connections in server->todo, unless enough threads
 * are at that. */
void connections_run(struct server *server);
/* The same, by another thread, soon. */
void connections_kick(struct server *server);

/* With the registry's lock held: */
void connection_answer(struct connection *connection, const uint8_t *ids, size_t ids_size,
		       const uint8_t *answer, size_t size);
/* Its session ends now, the connection soon. */
void connection_end(struct connection *connection);

#endif
