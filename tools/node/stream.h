/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_STREAM_H
#define GPUSHARE_TOOLS_STREAM_H
/*
 * A TCP connection between a puller and a node, with TLS or without, for one thread. With TLS, the
 * first send or receive does the handshake, and each side needs a certificate that the CA in its
 * TLS folder has signed.
 */
#include <stdbool.h>
#include <stddef.h>

#include "address.h"

#define NODE_SILENCE_MS 10000

struct stream;

/* Connect to a node. `folder` has ca.pem and node.pem, for TLS. Later calls fail with ETIMEDOUT if
 * no byte moves for NODE_SILENCE_MS. On failure this function and the next three return NULL, -1 or
 * false, and set `why`. */
struct stream *stream_dial(const struct address *address, const char *folder,
			   char why[NODES_WHY_MAX]);
/* Listen at the address. Returns a socket for accept(). *out_port: the port; if the address has
 * port 0, the one that the kernel chose. */
int stream_listen(const struct address *address, int *out_port, char why[NODES_WHY_MAX]);
/* Whether the files for TLS can be used. */
bool stream_check(const char *folder, char why[NODES_WHY_MAX]);
/* Make the node's side of a connection from the accepted socket `fd`, without time limits. `folder`
 * NULL: without TLS. */
struct stream *stream_of(int fd, const char *folder, char why[NODES_WHY_MAX]);
void stream_free(struct stream *stream); /* closes the socket; NULL is allowed */

/* Whether this host sends to the peer through `interface`. `out_peer` gets the peer's address. */
bool stream_is_by(int fd, const char *interface, char out_peer[ADDRESS_MAX]);
int stream_fd(const struct stream *stream);

/* These return 0 or an errno. */
int stream_receive(struct stream *stream, void *to, size_t size);
int stream_send(struct stream *stream, const void *from, size_t size);
/* Wait for bytes or the end of the connection. False: neither came within `patience_ms`. */
bool stream_is_ready(struct stream *stream, int patience_ms);
const char *stream_error_text(int error);

#endif
