/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_FDS_SERVER_H
#define GPUSHARE_REGISTRY_FDS_SERVER_H
/*
 * fds.sock, where clients deposit and fetch file descriptors: one thread of its own, because looking
 * at a descriptor and closing one may wait for whoever made the file. Only this thread waits then.
 */
#include <stdatomic.h>

#include "registry.h"

struct fds_server {
	struct registry *registry;
	int listener;
	int events;  /* epoll: the listener, the connections, the two below */
	int watches; /* the deaths of those who have tickets: see watch.h */
	int wake;    /* eventfd, also the vault's */
	int leave;   /* eventfd: another daemon wants our place */
	pthread_t thread;
	atomic_bool ending;
	struct call *connections; /* who was silent for longest comes first */
	unsigned int count;
	int64_t deaf_until_ns; /* no descriptor was left for one more connection; 0: listening */
};

/* `path` of the socket, which must be free. On failure a sentence is logged and false returned. */
bool fds_server_open(struct fds_server *server, struct registry *registry, const char *path);
/* Waits for the thread, which may be in a close() that waits. */
void fds_server_close(struct fds_server *server);

#endif
