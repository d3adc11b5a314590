/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_PEER_H
#define GPUSHARE_TOOLS_PEER_H
/* A connection to a node, for one thread. */
#include <limits.h>

#include "address.h"
#include "copy/progress.h"
#include "message.h"
#include "node.h"
#include "protocol.h"
#include "stream.h"

struct peer {
	const struct node *node;
	struct stream *stream;
	node_answer *answer;		   /* the last answer */
	uint8_t *message;		   /* memory for an encoded message */
	char version[32];		   /* of the node */
	char ucx[16];			   /* UCX version offered for this connection; "": none */
	struct ucx *worker;		   /* of peer_use_ucx(); NULL: bytes come over the stream */
	char place[PLACE_MAX];		   /* place_find() of the node's registry; "": unknown */
	char directory[GPUSHARE_PATH_MAX]; /* of the node's registry, on its host */
	char why[NODES_WHY_MAX + 128];	   /* a sentence: why the last call failed */
};

/* These return an enum gpushare_status; if it isn't GPUSHARE_OK, peer->why has the reason.
 * `folder`: of the TLS files; NULL: the default. Call peer_close() even if peer_open() fails. */
int peer_open(struct peer *peer, const struct node *node, const char *folder);
int peer_hello(struct peer *peer);
int peer_list(struct peer *peer, const char *glob, struct node_infos *infos);
/* Open a buffer of the node. If `after` isn't NULL, first wait, without a time limit, until the
 * newest publication isn't the one in `after`; the buffer may be open already then. */
int peer_begin(struct peer *peer, const char *name, const struct gpushare_info *after,
	       struct gpushare_info *out_info);
/* Use UCX on `interface` for the bytes from now on. If that fails, report the reason: the bytes
 * then come over the stream. */
void peer_use_ucx(struct peer *peer, const char *interface);
/* Receive `size` bytes of the open buffer, from `offset` on. Ranges begin and end at multiples of
 * NODE_PIECE_MAX, or end with the buffer. The call with offset 0 asks the node for all bytes. */
int peer_fetch(struct peer *peer, uint64_t offset, void *to, size_t size,
	       struct progress *progress);
/* Close the open buffer. *out_same: it still has its name, and nothing was published since
 * `info`. */
int peer_end(struct peer *peer, const struct gpushare_info *info, bool *out_same);
void peer_close(struct peer *peer);

#endif
