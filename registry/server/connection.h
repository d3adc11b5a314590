/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_CONNECTION_H
#define GPUSHARE_REGISTRY_SERVER_CONNECTION_H
/*
 * A connection to registry.sock: an nng stream that speaks SP's REP, so that each REQ of nng can be its peer.
 * Received bytes belong to the callback that receives, sent bytes to the one that sends, everything else to the
 * registry's lock. No call of nng is made under that lock: what is to be done goes into server->todo.
 */
#include "server/server.h"

struct bytes {
	uint8_t *at;
	size_t size, room;
};

struct connection {
	struct server *server;
	nng_stream *stream;
	nng_aio *in_aio, *out_aio, *now_aio;
	uint32_t id, uid, gid; /* the id is its session's, too */
	int32_t pid;

	pthread_mutex_t io; /* over the start of each operation on the stream, and its close */
	bool closed;

	/* Of the callback that receives: */
	struct bytes in;
	size_t in_at; /* bytes before this were handled */
	int64_t
	    begun_ns; /* when an unfinished message began, or a connection that hasn't asked yet */
	bool greeted, asked;

	/* Of the callback that sends: */
	struct bytes out;
	size_t out_at; /* bytes before this were sent */
	int64_t out_since_ns;

	/* Under the registry's lock: */
	struct user *user;
	struct session *session; /* NULL: it hasn't greeted, or has ended */
	struct bytes pending;	 /* answers behind those in `out` */
	unsigned int parked;	 /* requests: ask.h */
	bool in_pieces;		 /* one of these is done piece by piece */
	bool receiving, sending; /* a callback will come or runs */
	bool closing;		 /* the stream is closed or a thread is about to do it */
	bool listed;		 /* in server->todo */
	bool failed;		 /* an answer was lost for lack of memory */
	bool ended; /* its session has ended; it is freed when nothing uses it any more */
	struct connection *next_todo, *prev, *next;
};

/* Whether the registry serves that user; if not, it is counted, logged and audited. */
bool connection_is_served(struct registry *registry, uint32_t uid, int32_t pid);
/* Takes the stream. */
void connection_open(struct server *server, nng_stream *stream);

/* With the registry's lock held: */
/* Count, log and audit a peer that isn't let in: DROP_crowd or DROP_stranger. */
void connection_refused(struct registry *registry, const struct process *peer, enum drop why);
void connection_answer(struct connection *connection, const uint8_t *ids, size_t ids_size,
		       const uint8_t *answer, size_t size);
/* Its session ends now, the connection soon. */
void connection_end(struct connection *connection);

/* Without it: send, receive, close and free what is in server->todo. */
void connections_run(struct server *server);

#endif
