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
	struct gpushare_session *beside; /* the node's registry, on this host; NULL: not so */
	struct node via_node;
	struct peer via;	  /* without a stream: none, or no longer */
	struct node_infos copies; /* what that has */
	struct staged staged;
	struct progress progress;
	struct gpushare_info version; /* the buffer that was read last, as it was there */
	bool counts;		      /* `progress` has begun */
	bool by_ucx;		      /* the last bytes came by UCX */
	bool failed_here;	      /* the last failure is not the node's */
	double took, seconds;	      /* the last reading; those that were whole */
};

/* Connect to the node. Returns as peer_open() does. */
int pull_connect(struct puller *puller);
/* Read a buffer that peer_begin() opened into one here. Returns a status; peer->why says more. */
int pull_bytes(struct puller *puller, struct peer *peer, const uint8_t token[NODE_TOKEN_SIZE],
	       struct gpushare_buffer *buffer);
/* Set the tags of `info`, which are those there, those of the command line, and the one that says
 * that publication `sequence` here is a copy. Reports. */
bool pull_tags(struct puller *puller, const struct gpushare_info *info, uint64_t sequence);

/* Copy all of `from` by the GPU; it is done when this returns. False: CUDA refuses that. */
bool device_copy(struct gpushare_buffer *to, struct gpushare_buffer *from);

/* The tag of a copy that is publication `sequence` here: PLACE/GENERATION.SEQUENCE of the source,
 * and @SEQUENCE, so that it is void after the next publication here. */
struct gpushare_tag replica_tag(const struct puller *puller, const struct gpushare_info *there,
				uint64_t sequence);
/* Ask pull->via what it has. These report what fails, and then that node isn't asked again. */
void replica_begin(struct puller *puller, const char *glob);
/* Open the copy of that version there. False: there is none. */
bool replica_open(struct puller *puller, const struct gpushare_info *wanted,
		  struct gpushare_info *out_copy, uint8_t token[NODE_TOKEN_SIZE]);
void replica_end(struct puller *puller); /* why: puller->via.why */

/* Open the node's registry, if that is on this host, and this user may. */
void same_host_begin(struct puller *puller);
void same_host_end(struct puller *puller);
/* The buffer of that name there. False: there is none, or its publisher may write it: only the node
 * reads that twice, and sees that the two readings differ. */
bool same_host_find(struct puller *puller, const char *name, struct gpushare_info *out);
/* Copy `version` from there. False: that failed, or there is another version by now. */
bool same_host_copy(struct puller *puller, struct gpushare_buffer *to);

/* After the first copy was published and shown, until the source has gone. Reports, and returns a
 * tool_exit. */
int follow(struct puller *puller);

#endif
