/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_REGISTRY_PIECE_H
#define GPUSHARE_REGISTRY_PIECE_H
/* Long work under the registry's lock is done in pieces of PIECE_NS, so that no piece holds the
 * lock for a millisecond. Between two pieces, others have the lock for as long. */
#include <stdbool.h>

#include "os/clock.h"

#define PIECE_NS (NS_PER_MS / 2) /* half a millisecond: finishing a piece takes time, too */
#define PIECE_LEAST 16		 /* things to do at once if a request waits for them */

struct piece {
	int64_t until_ns;
	bool begun;
};

static inline struct piece piece_begin(void)
{
	return (struct piece){.until_ns = clock_ns() + PIECE_NS};
}

/* Call before each thing. Never true before the first one, so each piece makes progress. */
static inline bool piece_is_over(struct piece *piece)
{
	bool over = piece->begun && clock_ns() >= piece->until_ns;

	piece->begun = true;
	return over;
}

#endif
