/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_FDS_H
#define GPUSHARE_REGISTRY_SERVER_FDS_H
/*
 * fds.sock, which the main loop serves: requests that carry a file descriptor, or whose answer
 * does. No descriptor may block the main loop. So the registry keeps only descriptors of memory, of
 * this kernel or of the GPU's driver. Another thread closes all others, because their close() may
 * wait for another process.
 */
#include "server/server.h"

struct fds_connection {
	int fd;
	int32_t pid;
	struct user *user;
	bool asked;
	int64_t deadline_ns;
	struct fds_connection *prev, *next;
};

struct fds_server {
	struct registry *registry;
	int listener;
	int events;			    /* epoll: the listener and the connections */
	struct fds_connection *connections; /* the one that was silent for longest is first */
	int64_t paused_until_ns;	    /* the listener is paused until then; 0: it is not */
	bool replaced;			    /* another daemon takes over: the main loop must end */
	uint8_t body[GPUSHARE_MESSAGE_MAX]; /* of the message being handled, then of its answer */
};

/* Listen at `path`, which must be free. false: it failed, which is logged. */
bool fds_server_open(struct fds_server *server, struct registry *registry, const char *path);
/* Accept connections, and receive and answer messages. Doesn't wait. */
void fds_server_run(struct fds_server *server);
/* Close silent connections, and resume the listener after a pause. Returns when to call this again;
 * INT64_MAX: no need. */
int64_t fds_server_tick(struct fds_server *server);
/* Receive and answer the message that waits at the connection. false: close the connection. */
bool fds_answer(struct fds_server *server, const struct fds_connection *connection);

#endif
