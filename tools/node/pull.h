/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_PULL_H
#define GPUSHARE_TOOLS_PULL_H
/* Shared by the files of gpushare pull. */
#include "copy/progress.h"
#include "copy/staged.h"
#include "peer.h"
#include "ucx.h"

struct puller {
	const struct pull *pull;
	struct node node;
	struct peer peer;
	struct node_infos infos;	 /* to pull; a single one may have only its `name` set */
	struct gpushare_session *beside; /* with the node's registry; NULL: not on this host */
	struct node via_node;
	struct peer via;	  /* if it has no stream: no --via, or via_node failed */
	struct node_infos copies; /* the buffers of `via` */
	struct staged staged;
	struct progress progress;
	struct gpushare_info version; /* the source's record at the last reading */
	bool elsewhere;	      /* the last bytes came by another way, while `peer` was silent */
	bool by_ucx;	      /* the last bytes came by UCX */
	bool failed_here;     /* the last failure was on this host */
	double took, seconds; /* duration of the last reading; of all complete ones */
};

/* Connect to the node. Returns the status of peer_open(). */
int pull_connect(struct puller *puller);
/* If the connection was silent, and the node has closed it, connect again. Returns a status. */
int pull_reach(struct puller *puller);
/* Fill `buffer` from the buffer that peer_begin() opened. Returns a status; peer->why has the
 * reason. */
int pull_bytes(struct puller *puller, struct peer *peer, struct gpushare_buffer *buffer);
/* Set tags of this host's buffer info->name: the source's (info->tags), those of the command line,
 * and replica_tag() for publication `sequence`. Reports errors. */
bool pull_tags(struct puller *puller, const struct gpushare_info *info, uint64_t sequence);

/* Copy all of `from` to `to` by the GPU, and wait for the end. False: CUDA failed. */
bool device_copy(struct gpushare_buffer *to, struct gpushare_buffer *from);

/* The tag of a copy of `there`: PLACE/GENERATION.SEQUENCE of the source, then @ and the copy's own
 * sequence, so that the tag is void after the copy's next publication. */
struct gpushare_tag replica_tag(const struct puller *puller, const struct gpushare_info *there,
				uint64_t sequence);
/* List the buffers of the node pull->via. If that fails, report it, and don't use the node. */
void replica_begin(struct puller *puller, const char *glob);
/* Open the copy of `wanted` on the node pull->via. False: the node has none. */
bool replica_open(struct puller *puller, const struct gpushare_info *wanted,
		  struct gpushare_info *out_copy);
void replica_end(struct puller *puller); /* report via.why, close via */

/* Open a session with the node's registry, if it is on this host and this user may use it. */
void same_host_begin(struct puller *puller);
void same_host_end(struct puller *puller);
/* Find the buffer in the node's registry. False: there is none, or its publisher may write during a
 * copy. Then use the node, which reads such a buffer twice, and compares. */
bool same_host_find(struct puller *puller, const char *name, struct gpushare_info *out);
/* Copy puller->version from that registry. False: the copy failed, or the source has changed. */
bool same_host_copy(struct puller *puller, struct gpushare_buffer *to);

/* Copy each later publication of the source, until the source is gone. Call this after the first
 * copy was published. Reports errors, and returns a tool_exit. */
int follow(struct puller *puller);

#endif
