/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_STREAM_H
#define GPUSHARE_TOOLS_STREAM_H
/*
 * An nng stream. One thread may send while another receives. A call fails if no byte moves for
 * NODE_SILENCE_MS. With TLS, the first send or receive does the handshake, and each side needs a
 * certificate that the CA in its TLS folder has signed.
 */
#include <stdbool.h>
#include <stddef.h>

#include "address.h"

#define NODE_SILENCE_MS 10000

struct stream;
struct listener;

/* On failure these return false and set `why`. `folder` has ca.pem and node.pem, for TLS. */
bool stream_dial(const struct address *address, const char *folder, struct stream **out,
		 char why[NODES_WHY_MAX]);
bool listener_open(const struct address *address, const char *folder, struct listener **out,
		   char why[NODES_WHY_MAX]);
void listener_free(struct listener *listener);
int listener_port(const struct listener *listener);
/* Wait for a connection, without a time limit. After a failure, a later call may succeed. */
bool listener_accept(struct listener *listener, struct stream **out, char why[NODES_WHY_MAX]);

/* Whether this host sends to the peer through `interface`. `out_peer` gets the peer's address. */
bool stream_is_by(const struct stream *stream, const char *interface, char out_peer[ADDRESS_MAX]);

/* Receive 1 to `room` bytes. This and the next two return 0 or an error of nng. */
int stream_receive_some(struct stream *stream, void *to, size_t room, size_t *out_size);
int stream_receive(struct stream *stream, void *to, size_t size);
int stream_send(struct stream *stream, const void *from, size_t size);
/* Whether the error means that no byte moved in time. */
bool stream_is_silence(int error);
const char *stream_error_text(int error);
/* Calls that wait in other threads then return an error. */
void stream_close(struct stream *stream);
void stream_free(struct stream *stream); /* NULL is allowed */

#endif
