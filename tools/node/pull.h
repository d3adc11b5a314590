/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_PULL_H
#define GPUSHARE_TOOLS_PULL_H
/* What the files of gpushare pull share. */
#include "copy/progress.h"
#include "copy/staged.h"
#include "peer.h"

struct puller {
	const struct pull *pull;
	struct node node;
	struct peer peer;
	struct node_infos infos; /* the buffers there; of a single one only the name is known */
	struct staged staged;
	struct progress progress;
	struct gpushare_info version; /* the buffer that was read last, as it was there */
	bool counts;		      /* `progress` has begun */
	bool failed_here;	      /* the last failure is not the node's */
	double took, seconds;	      /* the last reading; those that were whole */
};

/* Read a buffer that peer_begin() opened into one here. Returns a status; peer.why says more. */
int pull_bytes(struct puller *puller, const uint8_t token[NODE_TOKEN_SIZE], uint64_t size,
	       struct gpushare_buffer *buffer);
/* Set the tags of `info`, which are those there, and those of the command line. Reports. */
bool pull_tags(struct puller *puller, const struct gpushare_info *info);

/* Before the first copy is shown: this process is its publisher. Reports. */
bool follow_begin(struct puller *puller);
/* After that, until the source has gone. Reports, and returns a tool_exit. */
int follow(struct puller *puller);

#endif
