/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_EVENTS_SERVER_H
#define GPUSHARE_REGISTRY_EVENTS_SERVER_H
/*
 * events.sock: nng PUB, and a thread that sends what events.c has written down. PUB waits for nobody: of
 * each watcher LIMIT_EVENTS notices wait at most, and the oldest goes first.
 */
#include <nng/nng.h>
#include <pthread.h>
#include <stdatomic.h>

#include "probe.h"
#include "registry.h"

struct events_server {
	struct registry *registry;
	nng_socket socket;
	struct probe probe;
	int wake; /* eventfd: something is to be sent, or this ends */
	atomic_bool ending;
	pthread_t thread;
};

/* `path` of the socket, which must be free. On failure a sentence is logged and false returned. */
bool events_server_open(struct events_server *server, struct registry *registry, const char *path);
/* Ends every watcher's connection. */
void events_server_close(struct events_server *server);
/* As server_hear(). */
void events_server_hear(struct events_server *server, const char *path);

#endif
