/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_H
#define GPUSHARE_REGISTRY_SERVER_H
/* nng between the socket and the handlers: contexts, asynchronous I/O, pipes as leases. */
#include <nng/nng.h>
#include <nng/supplemental/util/platform.h>

#include "probe.h"
#include "registry.h"
#include "watch.h"

/* A connection to be closed, if it is there then. */
struct closing {
	uint32_t id;
	int64_t due_ns;
	struct closing *prev, *next;
};

struct server {
	struct registry *registry;
	nng_socket socket;
	struct probe probe;
	int wake;    /* eventfd: the main loop should look again */
	int watches; /* the peers' deaths; readable when one died */
	struct work *works;
	unsigned int work_count; /* main loop only */
	uint64_t served;	 /* main loop only: server_has_served() */
	bool keeping;		 /* main loop only: something was kept at its last look */
	int64_t piece_ns;	 /* main loop only: when the next piece of an end is due */
	struct closing *closing; /* main loop only; the first is the first due */

	/* Under the registry's lock: */
	unsigned int receiving; /* works that can take a request */
	uint64_t connected;	/* so many came */
	int64_t idle_since_ns;	/* but for watchers; INT64_MAX: somebody is connected */
};

/* `path` of the socket, which must be free. On failure a sentence is logged and false returned. */
bool server_open(struct server *server, struct registry *registry, const char *path);
/* Ends every connection. */
void server_close(struct server *server);

/*
 * What has become due: waiters and kept names whose time is up, peers that died, contexts to open. Returns when to
 * be called again at the latest; server->wake or ->watches turns readable when it should be
 * earlier.
 */
int64_t server_tick(struct server *server);
/* Asks whether `path` is still answered, and listens there anew if it isn't: see probe.h. */
void server_hear(struct server *server, const char *path, bool busy);
/* Whether anybody connected or asked since it was called last. */
bool server_has_served(struct server *server);
/* Since when nobody is connected or watches and nothing is kept; INT64_MAX: somebody is, or something. */
int64_t server_idle_since_ns(struct server *server);
/* Whether nobody is connected, whatever is kept. */
bool server_is_alone(struct server *server);

#endif
