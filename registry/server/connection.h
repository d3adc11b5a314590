/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_CONNECTION_H
#define GPUSHARE_REGISTRY_SERVER_CONNECTION_H
/*
 * A connection to registry.sock: an nng stream that speaks SP's REP, so that every REQ of nng can be its
 * peer. It may ask again before it is answered; answers carry the request's id and come in any order.
 * A connection that does not greet, ask, end its message or read within limits.silent_ns is closed.
 *
 * Callbacks of nng's threads own it by `receiving` and `sending`. nng is never called with the registry's
 * lock held: what is to be done by it is put on a list (struct connection **todo), for connections_run().
 */
#include <nng/nng.h>

#include "server/bytes.h"
#include "server/server.h"

#define SP_IDS_MAX \
	(9 * SP_ID_SIZE) /* of a request: one, and one more for each of eight devices between */

struct connection {
	struct server *server;
	nng_stream *stream;
	nng_aio *in_aio, *out_aio, *now_aio;
	uint32_t id, uid, gid; /* the id is its session's, too */
	int32_t pid;
	bool greeted;

	pthread_mutex_t io; /* over what is begun on the stream, and its end */
	bool closed;

	/* Of who receives: */
	struct bytes in;  /* that came... */
	size_t in_at;	  /* ...and were not looked at up to here */
	int64_t begun_ns; /* its first request, or a message; 0: none has begun */
	bool asked;	  /* a first request came */

	/* Under the registry's lock: */
	struct user *user;
	bool receiving; /* there is a callback to come, or in hand */
	bool sending;	/* the same */
	bool held;    /* not received from before it has read more, or what it has asked is done */
	bool listed;  /* on a list of what is to be done */
	bool failed;  /* it has lost an answer, and is to end */
	bool ended;   /* it is to be closed; its session has gone */
	bool closing; /* that is being done */
	unsigned int in_pieces; /* requests that are done piece by piece */
	struct bytes pending;	/* answers behind those that are sent */
	struct connection *next_todo, *prev, *next;

	/* Of who sends: */
	struct bytes out;
	size_t out_at; /* sent up to here */
	int64_t out_since_ns;
};

/* The stream is its own from here on, and is greeted; or closed, where its user is not served. */
void connection_open(struct server *server, nng_stream *stream);

/* With the registry's lock held: */
/* An answer of `size` bytes to the request with these ids. Where there is no memory for it, one that says so. */
void connection_answer(struct connection *connection, const uint8_t *ids, size_t ids_size,
		       const uint8_t *answer, size_t size, struct connection **todo);
/* Its session ends now, the connection soon. */
void connection_end(struct connection *connection, struct connection **todo);
/* A request of its that was done in pieces is done. */
void connection_go_on(struct connection *connection, struct connection **todo);

/* Without it: */
void connections_run(struct connection *todo);

#endif
