/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_STATS_H
#define GPUSHARE_TOOLS_STATS_H
/* Minimum, maximum, mean, and counts of zeros, NaNs and infinities, in one pass over the
 * elements. */
#include "dtype.h"

struct stats {
	enum dtype dtype;
	uint64_t count; /* of all elements, NaNs included */
	uint64_t nans;
	uint64_t infinities[2]; /* [0]: minus infinity, [1]: plus infinity */
	uint64_t zeros;
	/* minimum and maximum without NaNs, as `dtype` stores them */
	unsigned char least[DTYPE_SIZE_MAX];
	unsigned char most[DTYPE_SIZE_MAX];
	double sum, lost; /* of the finite elements; the total is sum + lost (Neumaier) */
};

void stats_begin(struct stats *stats, enum dtype dtype);
/* Add `count` elements. `data` need not be aligned. */
void stats_add(struct stats *stats, const void *data, size_t count);
/* Add the statistics of elements that come after those of `stats`. */
void stats_merge(struct stats *stats, const struct stats *behind);
/* NaN if all elements are NaNs, or if there are infinities of both signs. */
double stats_mean(const struct stats *stats);
/* Format minimum and maximum; "none" if all elements are NaNs. */
void stats_extremes(const struct stats *stats, char least[DTYPE_TEXT_MAX],
		    char most[DTYPE_TEXT_MAX]);

#endif
