/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LISTEN_H
#define GPUSHARE_REGISTRY_LISTEN_H
/* nng's listeners on a path, which may go deaf: see probe.h. */
#include <nng/nng.h>
#include <stdint.h>

/* 0, or what nng says. */
int listen_start(nng_socket socket, const char *path);
/* Asks whether `path` is still answered, as a peer that speaks `protocol`, and listens there anew if
 * it isn't. The old listener stays open, for the connections that it has. */
void listen_hear(nng_socket socket, const char *path, uint16_t protocol, int heard);
/* Without nng: a descriptor that listens there, or -1 and errno. */
int listen_plain(const char *path, int type);

#endif
