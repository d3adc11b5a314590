/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_SERVER_H
#define GPUSHARE_REGISTRY_SERVER_SERVER_H
/* registry.sock: its listener, what becomes due, and its end. */
#include <nng/nng.h>
#include <stdatomic.h>

#include "registry.h"

struct connection;

struct server {
	struct registry *registry;
	nng_stream_listener *listener;
	nng_aio *accepting;
	bool pausing; /* the accepting callback's: the last connection could not be accepted */
	int wake;     /* eventfd: the main loop is to look again */
	int watches;  /* readable when a peer has died: os/process.h */
	atomic_uint running; /* callbacks of nng: the registry outlives them */

	/* Of the main loop: */
	uint64_t served;      /* server_has_served() */
	bool keeping;	      /* something was kept at the last tick */
	int64_t ending_at_ns; /* when to go on with sessions that end */

	/* Under the registry's lock: */
	struct connection *connections;
	struct connection *todo; /* connections_run() */
	uint32_t last_id;
	bool closing;
	uint64_t connected;
	int64_t idle_since_ns; /* INT64_MAX: somebody is connected */
};

/* `path` of the socket, which must be free. On failure a sentence is logged and false returned. */
bool server_open(struct server *server, struct registry *registry, const char *path);
/* Ends every connection. */
void server_close(struct server *server);

/* Do what is due: parked requests, kept names whose time is up, peers that died. Returns when to call it again at
 * the latest; server->wake or ->watches is readable when that should be earlier. */
int64_t server_tick(struct server *server);
/* Whether anybody connected or asked since the last call. */
bool server_has_served(struct server *server);
/* Since when nobody is connected and nothing is kept; INT64_MAX: somebody is, or something. */
int64_t server_idle_since_ns(struct server *server);
/* Whether nobody is connected. */
bool server_is_alone(struct server *server);

/* Of connection.c, under the lock: its parked requests go now, its names and attachments soon. */
void server_end_session(struct server *server, struct session *session);

#endif
