/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PIECE_H
#define GPUSHARE_REGISTRY_PIECE_H
/* Work on many things under the registry's lock is done in pieces of PIECE_NS. Between two of them others have
 * the lock for as long. */
#include <stdbool.h>

#include "os/clock.h"

#define PIECE_NS NS_PER_MS
#define PIECE_LOOK 16 /* things between two looks at the clock */

struct piece {
	int64_t until_ns;
	unsigned int done;
};

static inline struct piece piece_begin(void)
{
	return (struct piece){.until_ns = clock_ns() + PIECE_NS};
}

/* To be asked before each thing, but not before the first. */
static inline bool piece_is_over(struct piece *piece)
{
	return ++piece->done % PIECE_LOOK == 0 && clock_ns() >= piece->until_ns;
}

#endif
