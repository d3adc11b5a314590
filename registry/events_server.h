/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_EVENTS_SERVER_H
#define GPUSHARE_REGISTRY_EVENTS_SERVER_H
/*
 * events.sock, in a thread of its own: sends what events.c has written down, to each watcher what it may
 * see. It speaks as nng's PUB does, and is none: that sends the same to all. It waits for nobody: of each
 * watcher LIMIT_EVENTS notices wait at most, and the oldest goes first.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "registry.h"

struct spectator;

struct events_server {
	struct registry *registry;
	int listener;
	int events; /* epoll */
	int wake;   /* eventfd: something is to be sent, or this ends */
	struct spectator *spectators;
	uint32_t last_id;
	int64_t look_ns; /* when to look for those that are slow; INT64_MAX: there is none */
	atomic_bool ending;
	pthread_t thread;
};

/* `path` of the socket, which must be free. On failure a sentence is logged and false returned. */
bool events_server_open(struct events_server *server, struct registry *registry, const char *path);
/* Ends every watcher's connection. */
void events_server_close(struct events_server *server);

#endif
