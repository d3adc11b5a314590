/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_SOCKETS_H
#define GPUSHARE_REGISTRY_SOCKETS_H
/*
 * The connections that nng has, by their descriptors: how far each has come with what it says and
 * hears, since when, and how many a user has. nng has no deadline for a message that was begun, and one
 * whose pipe is closed then loses an aio (work.c); a socket that is shut down it takes for a peer that
 * went, which is well. Told of it all by nng_calls.c; with a shared libnng nothing is known here.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "counts.h"

enum socket_kind {
	SOCKET_ASKS,	/* registry.sock: greeting, hello, requests */
	SOCKET_WATCHES, /* events.sock: greeting, and nothing more */
};

/* How long all of them have, and how many one user may have; once, before there are any. */
void sockets_init(int64_t silent_ns, uint64_t of_user);

/* false: its user has too many. */
bool sockets_enter(int fd, enum socket_kind kind, uint32_t uid);
void sockets_leave(int fd);
/* It has said `size` bytes more. false: they are more than a watcher has to say. */
bool sockets_heard(int fd, const void *bytes, size_t size);
/* It was sent something, and took all of it, or not. */
void sockets_told(int fd, bool all);

/* Shut those down whose time is up, and count them, and those who were too many. */
void sockets_end(int64_t now_ns, uint64_t drops[DROP_KINDS]);

#endif
