/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_STREAM_H
#define GPUSHARE_TOOLS_STREAM_H
/*
 * One nng stream, used by one thread for each direction. Each call waits for progress no longer
 * than NODE_SILENCE_MS. With TLS, the handshake is part of the first call, and both sides need a
 * certificate of the CA in the TLS folder.
 */
#include <stdbool.h>
#include <stddef.h>

#include "address.h"

#define NODE_SILENCE_MS 10000

struct stream;
struct listener;

/* These return false with the reason in `why`. `folder`: of ca.pem and node.pem, for TLS. */
bool stream_dial(const struct address *address, const char *folder, struct stream **out,
		 char why[NODES_WHY_MAX]);
bool listener_open(const struct address *address, const char *folder, struct listener **out,
		   char why[NODES_WHY_MAX]);
void listener_free(struct listener *listener);
int listener_port(const struct listener *listener);
/* Wait for a connection, as long as it takes. False: as above; a later call may succeed. */
bool listener_accept(struct listener *listener, struct stream **out, char why[NODES_WHY_MAX]);

/* Whether this host reaches the peer by that interface; out_peer: the peer's address. */
bool stream_is_by(const struct stream *stream, const char *interface, char out_peer[ADDRESS_MAX]);

/* Some bytes, 1 or more. The calls below return 0 or an error of nng. */
int stream_receive_some(struct stream *stream, void *to, size_t room, size_t *out_size);
int stream_receive(struct stream *stream, void *to, size_t size);
int stream_send(struct stream *stream, const void *from, size_t size);
/* Whether the error means that nothing came for NODE_SILENCE_MS. */
bool stream_is_silence(int error);
const char *stream_error_text(int error);
/* Calls of other threads end with an error. */
void stream_close(struct stream *stream);
void stream_free(struct stream *stream); /* NULL is allowed */

#endif
