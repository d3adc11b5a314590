/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_FETCH_H
#define GPUSHARE_TOOLS_FETCH_H
/* The puller's side of a transfer by UCX. Only the bytes come by UCX: for each part that has
 * arrived, the node sends an Answer over the stream. */
#include "peer.h"
#include "ucx.h"

/* Open a UCX worker on `interface`, and have the node connect to it. Returns NULL after reporting
 * the reason; then receive the bytes over the stream. */
struct ucx *fetch_open(struct peer *peer, const char *interface);
/* Receive `size` bytes of the open buffer from `offset` on. Both ends are multiples of
 * NODE_PIECE_MAX, or the buffer's end. The call with offset 0 asks the node for all bytes. Returns
 * as peer.h's functions do. After a failure, UCX may write to `to` until ucx_close(). */
int fetch_some(struct peer *peer, struct ucx *ucx, const uint8_t token[NODE_TOKEN_SIZE],
	       uint64_t offset, void *to, size_t size);

#endif
