/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_PEER_H
#define GPUSHARE_TOOLS_PEER_H
/* A connection to a node, for one thread. */
#include <limits.h>

#include "address.h"
#include "message.h"
#include "node.h"
#include "place.h"
#include "protocol.h"
#include "stream.h"

struct peer {
	const struct node *node;
	struct stream *stream;
	node_answer *answer;		   /* the last one */
	uint8_t *message;		   /* room for one */
	char version[32];		   /* of the node */
	char ucx[16];			   /* its UCX, for this connection; "": none */
	struct ucx *worker;		   /* of fetch_open(); NULL: bytes come by the stream */
	char place[PLACE_MAX];		   /* of its registry; "": not known */
	char directory[GPUSHARE_PATH_MAX]; /* of its registry, on its host */
	int error;			   /* of nng; why the stream failed */
	char why[NODES_WHY_MAX + 128];	   /* a sentence: why the last call failed */
};

/* These return a status of gpushare.h; if it isn't GPUSHARE_OK, peer->why has a sentence. `folder`:
 * of the TLS files; NULL: the default. Call peer_close() in any case. */
int peer_open(struct peer *peer, const struct node *node, const char *folder);
int peer_hello(struct peer *peer);
int peer_list(struct peer *peer, const char *glob, struct node_infos *infos);
/* Attach a buffer there. `after`: wait as long as it takes until another publication than this one
 * is the newest, which peer_end() need not have ended; NULL: don't. `token` is for peer_send_read()
 * and peer_end(). */
int peer_begin(struct peer *peer, const char *name, const struct gpushare_info *after,
	       struct gpushare_info *out_info, uint8_t token[NODE_TOKEN_SIZE]);
/* Ask for bytes, without waiting; then receive the answers in the order of the asks, and the bytes
 * behind each by peer_receive(). */
int peer_send_read(struct peer *peer, const uint8_t token[NODE_TOKEN_SIZE], uint64_t offset,
		   uint32_t length);
int peer_receive_read(struct peer *peer, uint32_t length);
int peer_receive(struct peer *peer, void *to, size_t size);
/* Have the bytes of each peer_send_fetch() sent by UCX, to a worker of that address, as node.proto
 * says. */
int peer_connect(struct peer *peer, const void *address, size_t size,
		 const uint8_t token[NODE_TOKEN_SIZE]);
int peer_send_fetch(struct peer *peer, const uint8_t token[NODE_TOKEN_SIZE]);
/* Detach it there. *out_same: it has still the name, and nothing was published since. */
int peer_end(struct peer *peer, const uint8_t token[NODE_TOKEN_SIZE],
	     const struct gpushare_info *info, bool *out_same);
void peer_close(struct peer *peer);

#endif
