/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_FETCH_H
#define GPUSHARE_TOOLS_FETCH_H
/* The puller's side of UCX. The bytes come by UCX; by the stream the node says of each part that it
 * was sent. */
#include "peer.h"
#include "ucx.h"

/* A UCX worker on that interface, to which the node sends. NULL, after it has said why on standard
 * error: use the stream. */
struct ucx *fetch_open(struct peer *peer, const char *interface);
/* The bytes at that offset, which begins at a multiple of NODE_PIECE_MAX and ends at one or with
 * the buffer. The first call, for offset 0, asks for all bytes. Returns as the calls of peer.h do;
 * after a failure, close the worker before that memory is used. */
int fetch_some(struct peer *peer, struct ucx *ucx, const uint8_t token[NODE_TOKEN_SIZE],
	       uint64_t offset, void *to, size_t size);

#endif
