/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PIECE_H
#define GPUSHARE_REGISTRY_PIECE_H
/* Work on many things under the registry's lock is done in pieces of PIECE_NS, so that none holds it for a
 * millisecond. Between two of them others have the lock for as long. */
#include <stdbool.h>

#include "os/clock.h"

#define PIECE_NS (NS_PER_MS / 2) /* what ends a piece has its time, too */
#define PIECE_LEAST 16		 /* things, where somebody waits for just that */

struct piece {
	int64_t until_ns;
	bool begun;
};

static inline struct piece piece_begin(void)
{
	return (struct piece){.until_ns = clock_ns() + PIECE_NS};
}

/* To be asked before each thing; never before the first. */
static inline bool piece_is_over(struct piece *piece)
{
	bool over = piece->begun && clock_ns() >= piece->until_ns;

	piece->begun = true;
	return over;
}

#endif
