/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_GENERATION_H
#define GPUSHARE_REGISTRY_GENERATION_H
/*
 * Numbers that are never given twice, not over a restart either: they begin at the clock's
 * microseconds or above what <dir>/generation says was reserved, whichever is more. The clock
 * serves where the file can't be written, the file where the clock was set back.
 */
#include "protocol.h"

struct generation {
	uint64_t next;
	uint64_t reserved; /* the file promises that all below may be in use */
	int directory;	   /* fd; -1: the clock alone */
};

/* `path` of the directory; NULL for the clock alone. */
void generation_init(struct generation *generation, const char *path);
void generation_finish(struct generation *generation);
/* No clock and no counting ever gets there. */
#define GENERATION_SANE (UINT64_MAX / 2)
/* The highest that a client is believed to have been given: no counting on from it passes the other. */
#define GENERATION_TOLD (GENERATION_SANE / 2)
/* That one is in use, wherever it came from. */
void generation_pass(struct generation *generation, uint64_t used);
uint64_t generation_take(struct generation *generation);

#endif
