/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_GENERATION_H
#define GPUSHARE_REGISTRY_GENERATION_H
/*
 * Numbers that are never given twice, not over a restart either: they begin at the microseconds since the
 * host was started, a clock that nobody sets, and fewer are given than go by. Nothing that has one outlives
 * the host's kernel.
 */
#include <stdint.h>

struct generation {
	uint64_t next;
};

/* No clock and no counting ever gets there. */
#define GENERATION_SANE (UINT64_MAX / 2)
/* The highest that a client is believed to have been given: no counting on from it passes the other. */
#define GENERATION_TOLD (GENERATION_SANE / 2)

static inline void generation_init(struct generation *generation, int64_t boot_ns)
{
	generation->next = (uint64_t)boot_ns / 1000;
}

/* That one is in use, wherever it came from. */
static inline void generation_pass(struct generation *generation, uint64_t used)
{
	if (used > generation->next && used <= GENERATION_SANE)
		generation->next = used;
}

static inline uint64_t generation_take(struct generation *generation)
{
	return ++generation->next;
}

#endif
