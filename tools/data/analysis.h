/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_ANALYSIS_H
#define GPUSHARE_TOOLS_ANALYSIS_H
/* Analysis of a stream of bytes: --stats, --sha256, --diff. */
#include "common/crew.h"
#include "digest.h"
#include "layout.h"
#include "stats.h"

/* A result in addition to enum tool_exit: the file of --diff differs. */
#define ANALYSIS_DIFFERS 3

/* The result of --diff so far. */
struct compare {
	enum dtype dtype;
	uint64_t done;			    /* bytes that were compared */
	uint64_t bytes;			    /* bytes that differ */
	uint64_t elements;		    /* elements that differ */
	uint64_t first;			    /* offset of the first byte that differs, if any does */
	unsigned char ours[DTYPE_SIZE_MAX]; /* the element with the first byte that differs */
	unsigned char theirs[DTYPE_SIZE_MAX];
};

struct analysis {
	const struct query *query;
	const struct layout *layout;
	struct stats stats;
	struct crew *crew;	   /* for --stats; NULL: not started */
	const unsigned char *data; /* the chunk that the crew works on */
	size_t size;
	struct stats *parts; /* one for each piece of `data` */
	size_t part_room;
	struct sha256_ctx digest;
	struct compare compare;
	int fd;		     /* the file of --diff; -1: none */
	uint64_t theirs;     /* bytes of data in the file of --diff */
	int error;	     /* errno of a failed read or allocation */
	unsigned char *room; /* memory for bytes of the file of --diff */
	size_t room_size;
};

/* Whether the query has --stats, --sha256, --diff or --plot. The caller draws the plot. */
bool analysis_wanted(const struct query *query);
/* Returns false after reporting that the file of --diff can't be read, or is a .npy file of another
 * type than --dtype's. Call analysis_end() in any case. */
bool analysis_begin(struct analysis *analysis, const struct query *query,
		    const struct layout *layout);
/* Analyse the next bytes. Returns false with errno in analysis->error. */
bool analysis_add(struct analysis *analysis, const void *data, size_t size);
/* Print the results. Return a tool_exit, or ANALYSIS_DIFFERS. */
int analysis_report(struct analysis *analysis);
void analysis_end(struct analysis *analysis);

#endif
