/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_SERVER_H
#define GPUSHARE_REGISTRY_SERVER_SERVER_H
/* registry.sock: who connects, and what becomes due. */
#include <nng/nng.h>

#include "registry.h"
#include "os/watch.h"

struct connection;

struct server {
	struct registry *registry;
	nng_stream_listener *listener;
	nng_aio *accepting;
	bool pausing;	  /* its callback only: no connection could be taken */
	int wake;	  /* eventfd: the main loop should look again */
	int watches;	  /* the peers' deaths; readable when one died */
	uint64_t served;  /* main loop only: server_has_served() */
	bool keeping;	  /* main loop only: something was kept at its last look */
	int64_t piece_ns; /* main loop only: when the next piece of an end is due */

	/* Under the registry's lock: */
	struct connection *connections;
	pthread_cond_t none; /* of these is left */
	uint32_t last_id;
	bool closing;	       /* none comes any more */
	uint64_t connected;    /* so many came */
	int64_t idle_since_ns; /* but for watchers; INT64_MAX: somebody is connected */
};

/* `path` of the socket, which must be free. On failure a sentence is logged and false returned. */
bool server_open(struct server *server, struct registry *registry, const char *path);
/* Ends every connection. */
void server_close(struct server *server);

/*
 * What has become due: waiters, lists and kept names whose time has come, peers that died. Returns when to be
 * called again at the latest; server->wake or ->watches turns readable when it should be earlier.
 */
int64_t server_tick(struct server *server);
/* Whether anybody connected or asked since it was called last. */
bool server_has_served(struct server *server);
/* Since when nobody is connected or watches and nothing is kept; INT64_MAX: somebody is, or something. */
int64_t server_idle_since_ns(struct server *server);
/* Whether nobody is connected, whatever is kept. */
bool server_is_alone(struct server *server);

/* Of connection.c, under the lock: one that no connection has. */
uint32_t server_next_id(struct server *server);
/* Its waiters go, its names and attachments as soon as may be. */
void server_end_session(struct server *server, struct session *session);

#endif
