/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_LISTEN_H
#define GPUSHARE_REGISTRY_LISTEN_H
/* nng's listeners on a path, which may go deaf: see probe.h. */
#include <nng/nng.h>
#include <stdint.h>

/* 0, or what nng says. */
int listen_start(nng_socket socket, const char *path);
/* Asks whether `path` is still answered, as a peer that speaks `protocol`, and listens there anew if
 * it isn't. The old listener stays open for the connections that it has, and the first one in any case. */
void listen_hear(nng_socket socket, const char *path, uint16_t protocol, int heard);
/* Of each connection, for nng's callbacks: that it comes (ADD_PRE), and that it has gone (REM_POST). */
void listen_note(nng_pipe pipe, nng_pipe_ev event);

#endif
