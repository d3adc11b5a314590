/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SERVER_FDS_H
#define GPUSHARE_REGISTRY_SERVER_FDS_H
/*
 * fds.sock: requests with which a file descriptor goes, or comes back. The main loop serves it, and waits for
 * nobody: what is taken in is memory of this kernel or of the GPU's driver, and what is refused another
 * thread closes, as another process may decide how long that takes.
 */
#include "registry.h"

struct fds_connection {
	int fd;
	int32_t pid;
	uint32_t uid;
	int64_t deadline_ns;
	struct fds_connection *prev, *next;
};

struct fds_server {
	struct registry *registry;
	int listener;
	int events; /* epoll: the listener and the connections; readable where one of them is */
	struct fds_connection *connections; /* who was silent for longest comes first */
	unsigned int count;
	int64_t deaf_until_ns; /* no descriptor was left for one more connection; 0: listening */
	bool replaced;	       /* another daemon wants our place */
	uint8_t body[GPUSHARE_MESSAGE_MAX]; /* of the message in hand, then of its answer */
};

/* `path` of the socket, which must be free. On failure a sentence is logged and false returned. */
bool fds_server_open(struct fds_server *server, struct registry *registry, const char *path);
void fds_server_close(struct fds_server *server);
/* What is there is taken in and answered. */
void fds_server_run(struct fds_server *server);
/* Who is silent for too long goes; when to look again, INT64_MAX: no need. */
int64_t fds_server_tick(struct fds_server *server);

/* fds_answer.c: the message that waits at the connection. false: that is to be closed. */
bool fds_answer(struct fds_server *server, const struct fds_connection *connection);
/* Close what this user sent, or a connection of its with what may be in its queue. */
void fds_refuse(struct registry *registry, uint32_t uid, const int *fds, size_t count);

#endif
