/* SPDX-License-Identifier: MIT */
#ifndef GPUSHARE_TOOLS_STATS_H
#define GPUSHARE_TOOLS_STATS_H
/* Least, most, mean and NaNs of elements that come by once. */
#include "dtype.h"

struct stats {
	enum dtype dtype;
	uint64_t count; /* of all elements */
	uint64_t nans;
	uint64_t infinities[2]; /* of either sign: minus, plus */
	uint64_t zeros;
	unsigned char least[DTYPE_SIZE_MAX]; /* elements, as they are; of those that are no NaN */
	unsigned char most[DTYPE_SIZE_MAX];
	double sum, lost; /* of the finite ones, by Neumaier: what `sum` has lost is in `lost` */
};

void stats_begin(struct stats *stats, enum dtype dtype);
/* `count` elements more, which need not be aligned. */
void stats_add(struct stats *stats, const void *data, size_t count);
/* What comes behind it, found out apart. */
void stats_merge(struct stats *stats, const struct stats *behind);
/* NaN where there is none: no elements, or infinities of both signs. */
double stats_mean(const struct stats *stats);
/* Text of the least and the most; "none" where all are NaN. */
void stats_extremes(const struct stats *stats, char least[DTYPE_TEXT_MAX],
		    char most[DTYPE_TEXT_MAX]);

#endif
