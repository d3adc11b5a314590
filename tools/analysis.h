/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ANALYSIS_H
#define GPUSHARE_TOOLS_ANALYSIS_H
/* What is found out about bytes while they come by: --stats, --sha256, --diff. */
#include "compare.h"
#include "crew.h"
#include "digest.h"
#include "layout.h"
#include "stats.h"

struct analysis {
	const struct attach_request *request;
	const struct layout *layout;
	struct stats stats;
	struct crew *crew; /* for the stats; NULL: none */
	const unsigned char *data;
	size_t size;
	struct stats *parts; /* one for each piece of it */
	size_t part_room;
	struct digest digest;
	struct compare compare;
	int fd; /* of --diff; -1: none */
	bool npy;
	uint64_t theirs; /* bytes in there */
	int error;	 /* errno of reading it */
	unsigned char *room;
	size_t room_size;
};

bool analysis_wanted(const struct attach_request *request);
/* False: --diff's file can't be read, or is another's .npy; said. End it all the same. */
bool analysis_begin(struct analysis *analysis, const struct attach_request *request,
		    const struct layout *layout);
bool analysis_add(struct analysis *analysis, const void *data, size_t size);
/* Print what was found; a tool_exit, or ATTACH_DIFFERS. */
int analysis_report(struct analysis *analysis);
void analysis_end(struct analysis *analysis);

#endif
