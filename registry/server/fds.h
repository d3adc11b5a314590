/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_FDS_H
#define GPUSHARE_REGISTRY_SERVER_FDS_H
/*
 * fds.sock: requests with which a file descriptor goes, or comes back. The main loop serves it and never blocks:
 * accepted descriptors are memory of this kernel or of the GPU's driver. Another thread closes refused ones, because
 * another process may decide how long that takes.
 */
#include "server/server.h"

struct fds_connection {
	int fd;
	int32_t pid;
	struct user *user;
	int64_t deadline_ns;
	struct fds_connection *prev, *next;
};

struct fds_server {
	struct registry *registry;
	int listener;
	int events;			    /* epoll: the listener and the connections */
	struct fds_connection *connections; /* the one that was silent for longest comes first */
	int64_t deaf_until_ns; /* no descriptor was left for a connection; 0: listening */
	bool replaced;	       /* another daemon takes over */
	uint8_t body[GPUSHARE_MESSAGE_MAX]; /* of the message in hand, then of its answer */
};

/* `path` of the socket, which must be free. On failure a sentence is logged and false returned. */
bool fds_server_open(struct fds_server *server, struct registry *registry, const char *path);
/* Take in and answer what arrived. */
void fds_server_run(struct fds_server *server);
/* Close silent connections. Returns when to look again, INT64_MAX: no need. */
int64_t fds_server_tick(struct fds_server *server);
/* Answer the message that waits at the connection. false: the connection is to be closed. */
bool fds_answer(struct fds_server *server, const struct fds_connection *connection);

#endif
